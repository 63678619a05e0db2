"""Macros around kernels: what they hide is found, what they make is counted."""

from __future__ import annotations

import pytest

from kcurate.backends.cuda import nvrtc
from kcurate.cuda_source import whole_file
from tests.cuda_source.test_unit import compiles, only, unit

BODY = "scale(float *x, int n) { if (threadIdx.x < n) x[threadIdx.x] *= 2; }\n"


@pytest.mark.parametrize(
    "source",
    [
        "#define REGISTER(name) static int registered_##name = add(#name);\nint add(const char *);\n"
        "REGISTER(scale)\n__global__ void " + BODY,
        "#define REGISTER(a, b)\nREGISTER(mul, *)\n\n__global__ void " + BODY,
        "#define REGISTER(a, b) \\\n  static int a##_b = 1;\n// one\nREGISTER(c, d)\nREGISTER(e, f)\n"
        "__global__ void " + BODY,
        "namespace here {\nUNKNOWN(add, float)\nstatic __global__ void " + BODY + "}\n",
        "__global__ void __cluster_dims__(2, 1, 1) " + BODY,
        "__global__ void __launch_bounds__(256) __cluster_dims__(2, 1, 1) " + BODY,
        "#define KERNEL __global__ void\nKERNEL " + BODY,
        '#define GLOBAL __global__\n#define KERNEL extern "C" GLOBAL\nKERNEL void ' + BODY,
        "#define GLOBAL __global__\nGLOBAL\nvoid __launch_bounds__(128) " + BODY,
        "#define BOUNDS(threads, blocks)\n__global__ void\nBOUNDS(128, 2)\n" + BODY,
        "#define BOUNDS(n) __launch_bounds__(n)\nstatic __global__ BOUNDS((128)) void " + BODY,
    ],
)
def test_a_macro_before_a_kernel_does_not_hide_it(source: str) -> None:
    report = whole_file(source.encode())
    (kernel,) = report.kernels
    assert kernel.name == "scale"
    assert [param.name for param in kernel.params] == ["x", "n"]
    assert not report.unread
    assert nvrtc.compile_cubin(kernel.code).cubin is not None, kernel.code.decode()


def test_an_attribute_that_the_grammar_does_not_know_stays_in_the_kernel() -> None:
    (kernel,) = whole_file(b"#define R 64\n__global__ void __maxnreg__(R) k(float *x) { *x = 1; }\n").kernels
    assert b"#define R 64" in kernel.code
    assert b"__maxnreg__(R) k(float *x)" in kernel.code


@pytest.mark.parametrize(
    ("source", "count"),
    [
        (
            "#define BEGIN(name) __global__ void name(float *x) {\n#define END }\n"
            "BEGIN(add, 1) *x += 2; END\nBEGIN(mul)\n  *x *= 2;\n",
            2,
        ),
        (
            "#define HEAD(n) __global__ void __launch_bounds__(n)\n#define MAKE(name) HEAD(64) name() {}\n"
            "MAKE(one, 1)\nMAKE(__LINE__)\n__global__ void two() {}\n",
            2,
        ),
        (
            "#define MAKE(name) __global__ void name(int);\nMAKE(one)\n__global__ void one(int);\n"
            "template <typename T> __global__ void two(T *x) { *x = 1; }\n"
            "template __global__ void two<int>(int *);\n// __global__ void three() {}\n",
            0,
        ),
    ],
)
def test_kernels_of_macros_that_are_not_expanded_are_counted(source: str, count: int) -> None:
    report = whole_file(source.encode())
    assert sum((report.unread or {}).values()) == count


MACROS = """#define AT(r, c) ((r) * n + (c))
#define BEGIN(name) __global__ void name(float *x, int n) { int i = threadIdx.x; if (i < n) {
#define END } }
#define CLOSED() } }
#define BOUNDED(threads) __global__ __launch_bounds__(threads) void
#define NAMED(name) __global__ void name
#define UNROLL _Pragma("unroll")
"""


@pytest.mark.parametrize(
    ("source", "shown"),
    [
        (
            "BEGIN(k)\n#pragma unroll\n for (int j = 0; j < 4; j++) { x[AT(0, i)] += j; } // ?\nEND\nint z;",
            "#pragma unroll\n    for(int j = 0; j < 4; j ++) {\n      x[AT(0, i)] += j;",
        ),
        (
            "__device__ float two(float v) { return 2 * v; }\nBEGIN(k) x[i] = two(x[i]);\nCLOSED()",
            "two(x[i])",
        ),
        ("namespace a {\nBEGIN(k) x[i] = 2; END;\n}", "namespace a {"),
        (
            "BOUNDED(128) k(float *x, int n) {\n#ifdef N\n x[0] = N;\n#else\n x[0] = 1;\n#endif\n}",
            "(128) void k(",
        ),
        (
            "NAMED(k)(float *x, int n);\nNAMED(k)(float *x, int n) { if (n) { x[AT(0, 1)] = n; } }",
            "x[AT(0, 1)]",
        ),
        ("template <class T>\nNAMED(k)(T *x, int n) { x[n] = 1; }\n", "template < class T >"),
        ('extern "C" NAMED(k)(float *x, int n) { x[n] = 1; }', 'extern "C" __global__'),
        (
            "static BOUNDED(64)\nk(float *x, int n) { UNROLL for (int i = 0; i < n; i++) x[i] = 1; }",
            "UNROLL for",
        ),
    ],
)
def test_a_kernel_that_a_macro_only_begins_is_written_out(source: str, shown: str) -> None:
    inside = "a::" * ("namespace" in source)
    host = f"void run(float *x) {{ {inside}k<<<1, 2>>>(x, 3); }}"
    kernel = only(report := unit({"main.cu": f"{MACROS}{source}\n{host}"}))
    assert shown in kernel.code.decode() and compiles(kernel)
    assert len(kernel.launch_sites) == 1
    assert not report.unread


@pytest.mark.parametrize(
    ("source", "kernels"),
    [
        (
            "#define MAKE(name, op) __global__ void name(float *x) { x[0] = x[1] op 2; }\n"
            "MAKE(add, +)\nMAKE(mul, *);\nvoid run(float *x) { mul<<<1, 32>>>(x); }\n",
            {"add": 0, "mul": 1},
        ),
        (
            "#define KERNEL static __global__ void\n"
            "#define MAKE(T) __device__ T low_##T(T x) { return x < 1; } \\\n"
            "  KERNEL first_##T(T *x) { x[0] = low_##T(x[1]); } \\\n"
            "  KERNEL second_##T(T *x) { x[0] = low_##T(x[2]); } \\\n"
            "  void run_##T(T *x) { second_##T<<<1, 1>>>(x); }\nnamespace lib {\nMAKE(int)\n}\n",
            {"lib::first_int": 0, "lib::second_int": 1},
        ),
        (
            "#define TAKE(T, text) template <class U> __global__ void take(T *x, U *u) { \\\n"
            '    asm("// " text); \\\n'
            "    for (int i = 0; i < 2; ++i) { x[i] = T(u[i]) - -1; } }\n"
            'TAKE(float, "{;")\nvoid run(float *x, int *u) { take<int><<<1, 1>>>(x, u); }\n',
            {"take": 1},
        ),
        (
            "#define HEAD(n) __global__ void __launch_bounds__(n)\n"
            "#define MAKE(name) HEAD(64) name(int *x) { x[0] = 1; }\n"
            "MAKE(one)\n",
            {"one": 0},
        ),
    ],
)  # fmt: skip
def test_a_macro_call_that_makes_kernels_is_written_out(source: str, kernels: dict[str, int]) -> None:
    report = whole_file(source.encode())
    assert {kernel.qualified: len(kernel.launch_sites) for kernel in report.kernels} == kernels
    assert not report.unread
    for kernel in report.kernels:
        assert kernel.params[0].pointer
        assert b"#define" not in kernel.code
        assert nvrtc.compile_cubin(kernel.code).cubin is not None, kernel.code.decode()
    for code in report.file_codes.values():
        assert nvrtc.compile_cubin(code).cubin is not None, code.decode()


TABLE = (
    "#define TABLE(type, name, n) static const __device__ type name[n] = {\n#define TABLE_END() };\n"
    "#define OLD(declaration, hint) declaration __attribute__((deprecated(hint)))\n"
    'extern "C" {\nOLD(\n  float half_of(float x),\n  "use x / 2; it is {shorter");\nint other(void);\n}\n'
    "namespace tables {\nTABLE(int, first, 3)\n  1, 2,\n  3\nTABLE_END()\nTABLE(float, second, 2)\n"
    "  0.5f, { 2 }\nTABLE_END()\n}\n#define WIDTH 32\n"
)
# Host code that the grammar must not take for variables of the kernel.
BINDING = (
    "#define BINDING(type) \\\n  void run_##type(lib::Tensor a) { \\\n    const int n = a->size(); \\\n"
    "    std::tuple<lib::Tensor> max = lib::max(a); \\\n    k<<<1, n>>>(a.data<type>()); \\\n  }\n"
    "__global__ void k(float *x);\nBINDING(float)\n#define WIDTH 3\n"
)
MADE = (
    "#define UNARY(name, body) \\\n  __device__ float op_##name(float x) { return body; }\n"
    "UNARY(twice, x * 2)\nUNARY(square, x * x);\n#define STRUCT(name) struct name { float v; };\n"
    "STRUCT(box)\n#define WIDTH 32\n"
)


@pytest.mark.parametrize(
    ("source", "body", "wanted", "left_out"),
    [
        (TABLE, "tables::first[1] * WIDTH", "TABLE(int, first, 3)\n  1, 2,\n  3\nTABLE_END()", "second"),
        (TABLE, "tables::second[1] + WIDTH", "namespace tables {\nTABLE(float, second, 2)", "first"),
        (BINDING, "WIDTH; const int n = 1; *x += n", "#define WIDTH 3", "lib"),
        (MADE, "op_square(WIDTH)", "UNARY(square, x * x);", "twice"),
        (MADE, "box{op_twice(WIDTH)}.v", "STRUCT(box)", "square"),
    ],
)
def test_what_a_macro_call_declares_is_found_and_hides_nothing(
    source: str, body: str, wanted: str, left_out: str
) -> None:
    (kernel,) = whole_file(f"{source}__global__ void k(float *x) {{ *x = {body}; }}\n".encode()).kernels
    code = kernel.code.decode()
    assert wanted in code and left_out not in code and "half_of" not in code
    assert nvrtc.compile_cubin(kernel.code).cubin is not None, code


@pytest.mark.parametrize(
    ("define", "head"),
    [
        ("#define HD __host__ __device__", "HD std::uint64_t"),
        ("#define HD __host__ __device__", "HD int"),
        ("#define HD __host__ __device__", "static HD unsigned"),
        ("#define INLINE __forceinline__\n#define HD INLINE __device__", "HD std::size_t"),
        ("#define HD __attribute__((always_inline)) __device__", "HD inline unsigned"),
        ("#define HD __device__\n#define NOTHING", "NOTHING HD long"),
    ],
)
def test_macros_for_device_annotations_are_read(define: str, head: str) -> None:
    source = (
        f"#include <cstdint>\n{define}\n{head} twice(int x) {{ return 2 * x; }}\n"
        "__global__ void k(int* a) { a[threadIdx.x] = twice(a[threadIdx.x]); }\n"
    )
    (kernel,) = whole_file(source.encode()).kernels
    assert "device-annotation" not in kernel.shims
    assert head.rpartition(" ")[0] in kernel.code.decode()
    assert nvrtc.compile_cubin(kernel.code).cubin is not None, kernel.code.decode()


def test_an_annotating_macro_marks_constants_and_methods() -> None:
    source = b"""
#define CONSTANT __constant__
#define HD __host__ __device__
#define API
CONSTANT float weights[8];
struct API Pair {
  float a, b;
  HD Pair(float a, float b) : a(a), b(b) {}
  HD float sum() const { return a + b; }
};
__global__ void k(float* a) { a[threadIdx.x] = Pair(a[threadIdx.x], weights[0]).sum(); }
"""
    (kernel,) = whole_file(source).kernels
    assert b"CONSTANT float weights[8];" in kernel.code
    assert kernel.shims == ()
    assert nvrtc.compile_cubin(kernel.code).cubin is not None, kernel.code.decode()
