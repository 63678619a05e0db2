"""Names by which a side could tell the emulator from a GPU."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from kcurate.backends.emulator import toolchain
from kcurate.backends.emulator.source import INCLUDE
from kcurate.judge.checks.compiler_names import _ALIKE, _PORTABLE, _SHARED, compiler_names
from kcurate.judge.checks.lexer import Source

# Names that code uses, which are macros of the emulator and functions or words of CUDA.
LANGUAGE = _SHARED | {
    "__activemask", "__all", "__any", "__ballot", "__shfl", "__shfl_down", "__shfl_up", "__shfl_xor",
    "__syncthreads", "__syncthreads_and", "__syncthreads_count", "__syncthreads_or", "__restrict", "__cdecl",
    "__asm", "__builtin_align__", "__builtin_assume",
}  # fmt: skip


@pytest.mark.parametrize(
    "code",
    [
        "#ifdef __KCURATE_EMULATOR__\n#endif",
        "#if defined(__GNUC__) && __GNUC__ > 4\n#endif",
        "int k = __OPTIMIZE__;",
        "#ifndef __x86_64__\n#endif",
        "int k = sizeof(long double);",
        "double k = 1.0 + 1e-18L - 1.0;",
        "double k = 0x1p-60l;",
        "int k = kcu_lane;",
        "#define KCU_LEFT_OUT(part) 0",
        "#define kcu_probe_real(part, value, other)",
        "int k = __COUNTER__;",
        "#ifdef __syncthreads\n#endif",
        "#ifdef NV_IF_TARGET\n#endif",
        "#ifndef __DEVICE_FUNCTIONS_H__\n#define __DEVICE_FUNCTIONS_H__\nint on_host;\n#endif\nint x;",
        "#if 0\n#define __k8 1\n#endif\n#ifdef __k8\n#endif",
        "#define TEXT(x) #x\nint k = sizeof(TEXT(threadIdx));",
        "#define TEXT(...) # __VA_ARGS__",
        "#define OF(x) __GNU##x\nint k = OF(C__);",
        "#define OF(x, y) x##ux##y\nint k = OF(__lin, __);",
        "#define _ARM 1\n#ifdef _LP64\n#endif",
        "bool k = __is_trivially_copyable(int2);",
        "bool k = __is_empty(int2) || __is_constructible(int2, int);",
        "bool k = noexcept(sqrtf(1.0f));",
        "bool k = (bool)noexcept(__popc(1));",
        "#define ASK noexcept\nbool k = ASK(sqrtf(1.0f));",
        "#define SAME(x) x\nbool k = SAME(noexcept)(sqrtf(1.0f));",
        "#define SAME(x) x\nbool k = noexcept SAME((sqrtf(1.0f)));",
        "struct [[gnu::packed]] S { char a; int b; };",
        "#define SAME(x) x\nstruct [ SAME([__gnu__::packed]) ] S { char a; int b; };",
        "[[using clang: overloadable]] void f();",
        "#define OF(x) gn##x\nstruct [[OF(u)::packed]] S { int b; };",
        "struct S { [[no_unique_address]] E e; int x; };",
        "#define OF(x) __func_##x\nint k = sizeof(OF(_));",
        "#define OF(x) x##INE__\nint k = OF(__L);",
        '#define OF(x) _Prag##x\nOF(ma)("push_macro(1)")',
        "template <class T> auto f(int) -> decltype(T{}.bits, true);",
        "template <class T, class = decltype(((T *)0)->bits)> struct S;",
        "template <class T, int = int{sizeof(T)}, class = decltype(T{}.bits)> struct S;",
        "template <class T, auto = &T::bits> int f(int);",
        "template <class T> using Bits = decltype(&Both<T>::bits);",
        "template <class T> typename T::Bits f(int); template <class T> int f(long);",
        "template <class T, class> struct S; template <class T> struct S<T, typename T::Bits> {};",
        "template <class T> struct Both : T, Own {};",
        "auto f = [](auto x) -> decltype(x.bits) { return x.bits; };",
        "#define ASK(T) decltype(T{}.bits)\ntemplate <class T> ASK(T) *f(int);",
        "#define ANY template <class T>\nANY auto f(int) -> decltype(T{}.bits, true);",
        "#define TYPE decltype\nauto f = [](auto x) -> TYPE(x.bits) { return x.bits; };",
    ],
)
def test_what_tells_compilers_apart_is_refused(code: str) -> None:
    assert [finding.check for finding in compiler_names(Source(code))][:1] == ["compilers"]


@pytest.mark.parametrize(
    "code",
    [
        "#if __CUDA_ARCH__ >= 800\n#endif",
        "__global__ void __launch_bounds__(256) f(float *__restrict__ x) { *x = __FLT_MAX__; }",
        "// __GNUC__\nlong long k = 3; double d = 1; unsigned long x;",
        "float f = __expf(x) + __ldg(p) + __shfl_down_sync(m, v, 1);",
        "#ifdef USE_TILES\n#endif",
        "int __temp_x__ = 1, __a; float _Height = __temp_x__;",
        "__nv_bfloat16 x; __nv_fp8_storage_t y = __nv_cvt_float_to_fp8(1.0f, __NV_SATFINITE, __NV_E4M3);",
        "if (__builtin_expect(n > 1, 1)) __segment_sum(__core_loop);",
        "#ifndef _TILES_H_\n#define _TILES_H_\nint x;\n#endif",
        "#define __TILE__ 16\n#if __TILE__ > 8\nint x[__TILE__];\n#endif",
        "#if CUDART_VERSION >= 9000 && defined(__CUDACC__)\n#endif",
        "#ifndef FLT_MAX\n#define FLT_MAX 3.4e38f\n#endif",
        "#define ADD(op) __f##op##_rn(1.0f, 2.0f)",
        "long k = 0xEL + 15L; float f = 1.5f;",
        "__device__ int f() noexcept { return 1; }\n__device__ int g() noexcept(true);",
        "struct S { __device__ S() noexcept = default; __device__ auto f() noexcept -> int; };",
        "int k = __LINE__; const char *t = __func__;",
        "#define ROW(n) row_##n##_func\nint ROW(a);",
        "template <class T> typename T::Value f(typename T::Value x) { return x.bits + p->bits; }",
        "template <class T> __global__ void __launch_bounds__(T::n) f(T x); template <class T> void f();",
        "template <class T> void f(int n, int i = threadIdx.x);",
        "template <class A, class B> auto add(A a, B b) -> decltype(a + b) { return a + b; }",
        "template <class... T> struct S : Base<T...> { S(P p) : Base(p.bits) {} auto f() -> int; };",
        "template <class T> typename is<T>::type f(T x, bool (*g)(T) = &less); template <class T> void f();",
        "int i = x.template get<T>().bits; template struct S<int>; f = [](float4 v) -> int { return v.x; };",
        "#define WIDE(T) (sizeof(T) > 4)\ntemplate <class T> typename OnlyIf<WIDE(T)>::type f(T x);",
    ],
)
def test_what_means_the_same_everywhere_is_allowed(code: str) -> None:
    assert not list(compiler_names(Source(code)))


def test_every_macro_of_the_emulators_compiler_is_known() -> None:
    """Whatever g++ and our headers define; conditions may not ask for function macros of CUDA either."""
    options = (*toolchain.DEVICE, *toolchain.COMMON, f"-I{INCLUDE}", "-E", "-dM", "-x", "c++")
    listed = toolchain.run([*toolchain.find().command, *options, str(INCLUDE / "kcurate" / "all.h")], INCLUDE)
    names = set(re.findall(r"^#define (\w+)", listed.stdout, re.MULTILINE))
    assert "__GNUC__" in names or "__clang__" in names
    for name in sorted(names - {"NULL", "CUDART_VERSION", "CUDARTAPI", "assert"}):
        assert name in _PORTABLE or list(compiler_names(Source(f"#ifdef {name}\n#endif"))), name
        if name.startswith("_") and not name.startswith("__sync") and "(" not in name:
            code = f"int k = {name};"
            assert list(compiler_names(Source(code))) or name in LANGUAGE or _ALIKE.fullmatch(name), name


def test_every_macro_of_nvrtc_is_known() -> None:
    """Of all names that the toolkit's headers define, those that NVRTC has from the start."""
    nvrtc = pytest.importorskip("kcurate.backends.cuda.nvrtc", reason="NVRTC is not installed")
    found = set()
    for path in filter(Path.is_file, nvrtc.include_folders()[0].rglob("*")):
        if "cccl" not in path.parts:
            found |= set(re.findall(r"^\s*#\s*define\s+(\w+)", path.read_text(errors="ignore"), re.MULTILINE))
    asked = "".join(f"#ifdef {name}\n__device__ int kcu_has_{name};\n#endif\n" for name in sorted(found))
    made = nvrtc.compile_cubin(asked)
    names = set(re.findall(r"kcu_has_(\w+)", made.ptx))
    assert "NV_IF_TARGET" in names
    for name in sorted(names - {"CUDART_VERSION", "CUDARTAPI", "NULL", "assert"}):
        assert name in _PORTABLE or list(compiler_names(Source(f"#ifdef {name}\n#endif"))), name
