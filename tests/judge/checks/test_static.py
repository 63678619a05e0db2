"""What the static checks refuse, and the ordinary code that they allow."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
import sampling
from hypothesis import given
from hypothesis import strategies as st

from kcurate.core import resources, store
from kcurate.errors import InputError
from kcurate.judge.checks import static
from kcurate.judge.checks.global_state import static_variables
from kcurate.judge.checks.lexer import Source, tokenize
from kcurate.judge.checks.repeated_launches import find_repeated_launch, kernel_uses
from kcurate.problem import program
from kcurate.records import SIDES, Fill, For, Launch, Side, Step, ValueArg

CHEATS = Path(__file__).parents[2] / "cheats"
PAIRS = store.find_candidates(resources.pairs_dir())


def findings(code: str, *checks: str, plan: tuple[Launch, ...] = ()) -> list[str]:
    names = checks or static.ALL_CHECKS
    return [found.check for found in static.check_source(Side(code, plan), names)]


def kernel(body: str) -> str:
    return f'extern "C" __global__ void k(float *x, const float *a, int n)\n{{\n{body}\n}}\n'


@pytest.mark.parametrize(
    "folder",
    [
        pytest.param(folder, marks=pytest.mark.sample(sampling.name_of(folder)), id=folder.name)
        for folder in PAIRS
    ],
)
def test_built_in_pairs_pass_every_check(folder: Path) -> None:
    pair = store.read_candidate(folder)
    assert pair.problem is not None
    for name in SIDES:
        side = getattr(pair, name)
        assert static.check_source(side) == ()
        bound = program.bind(pair.problem, side, pair.problem.sizes.test[0])
        assert list(find_repeated_launch(bound, side.code)) == []


def test_an_unknown_check_is_an_error() -> None:
    with pytest.raises(InputError, match="unknown check 'sanity'"):
        static.check_source(Side("", ()), ("calls", "sanity"))


def test_every_registered_check_runs_by_default() -> None:
    registered = {*static.SOURCE_CHECKS, *static.PLAN_CHECKS}
    assert set(static.ALL_CHECKS) == registered
    assert len(static.ALL_CHECKS) == len(registered)


@pytest.mark.parametrize(
    "code",
    [
        '#include "/etc/passwd"',
        "#include </etc/passwd>",
        "  #  include <stdio.h>",
        "#/* */include <iostream>",
        '#define F "/etc/passwd"\n#include F',
        '#incl\\\nude "/etc/passwd"',
        "#include_next <cuda_fp16.h>",
        "#import <cuda_fp16.h>",
        '#line 1 "/etc/passwd"',
        '#embed "/etc/passwd"',
        "%:include <stdio.h>",
        "??=include <stdio.h>",
        '#if __has_include("/etc/passwd")\n#endif',
        "const char *place = __FILE__;",
    ],
)
def test_host_files_cannot_be_read(code: str) -> None:
    assert set(findings(code)) & {"headers", "directives", "characters"}


@pytest.mark.parametrize(
    "code", ["#include <cuda_fp16.h>", '#include "mma.h"', "#include <cooperative_groups.h>  // warps"]
)
def test_device_headers_are_allowed(code: str) -> None:
    assert findings(code) == []


@pytest.mark.parametrize(
    "body",
    [
        "__nanosleep(100);",
        "long long t = clock64();",
        "long long t = clock();",
        "auto f = &clock64; f();",
        "auto f = &clock; f();",
        "x[0] = __clock();",
        "__trap();",
        'asm("trap;");',
        'asm volatile ("mov.u64 %0, %globaltimer;" : "=l"(t));',
        'asm("{ .reg .u32 t; mov.u32 t, %clock; }");',
        'asm("@p bra L; L: exit;");',
        '__asm__("nano" "sleep.u32 20;");',
        'asm(R"(trap;)");',
        "float *p = new float[4];",
        "void *p = malloc(4);",
        'printf("%f", x[0]);',
        "__assertfail(0, 0, 0, 0, 1);",
        "__builtin_trap();",
        "__nvvm_nanosleep(3);",
        "cudaDeviceSynchronize();",
    ],
)
def test_sleeps_clocks_heap_and_printf_are_refused(body: str) -> None:
    assert findings(kernel(body))


@pytest.mark.parametrize(
    "body",
    [
        "int free = n; x[0] = free;",
        "x[0] = grid.open(n) + grid->clock();",
        "struct fixed { fixed(const fixed &) = delete; };",
        "float clock = a[0]; x[0] = clock;",
        "x[0] = grid.open;",
        '// printf("left from debugging")',
        'asm volatile("cp.async.ca.shared.global [%0], [%1], 16;" :: "r"(s), "l"(a));',
        'asm("{ .reg .pred p;\\n\\tsetp.eq.u32 p, %1, 0; }" :: "r"(r), "r"(n));',
        "unsigned s = (unsigned)__cvta_generic_to_shared(x);",
        'asm volatile("bar.sync 1, 64;");',
        "float4 v = *reinterpret_cast<const float4 *>(&a[4 * n]);",
        "float4 v = ((const float4 *)a)[n];",
        "float v = *(float *)&n;",
        "float *row = (float *)(x + n * 4);",
        "char *bytes = (char *)x; float *part = (float *)(bytes + 16);",
        "volatile float *warp = x; warp[0] += warp[32];",
        "__builtin_assume(n > 0);",
    ],
)
def test_ordinary_code_is_allowed(body: str) -> None:
    assert findings(kernel(body)) == []


@pytest.mark.parametrize(
    "body",
    [
        "float *p = (float *)0x7f0000000000;",
        "float *p = (float *)(unsigned long long)n;",
        "long long at = n; float *p = reinterpret_cast<float *>(at);",
        "long long at = n; auto p = reinterpret_cast<box<box<box<float>>> *>(at);",
        "long long at = n; auto p = (box<box<box<float>>> *)at;",
        "union { float *p; unsigned long long at; } u;",
        "unsigned long long at = 5; float v = *(float *)at;",
    ],
)
def test_pointers_made_from_integers_are_refused(body: str) -> None:
    assert findings(kernel(body), "int_as_ptr") == ["int_as_ptr"]


@pytest.mark.parametrize(
    ("code", "names"),
    [
        ("__device__ int count;", ["count"]),
        ("__device__ float a, *b, c[4] = {1, 2};", ["a", "b", "c"]),
        ("static __device__ volatile int lock = 0;", ["lock"]),
        ("int done = 0;", ["done"]),
        ("struct S { int v; } state;", ["state"]),
        ("struct S { int v; } one, *two, three[4];", ["one", "two", "three"]),
        ("struct S { int v; }; S state;", ["state"]),
        ("union U { int v; float w; } state;", ["state"]),
        ("namespace hidden { float kept[4]; }", ["kept"]),
        ('extern "C" { int kept; }', ["kept"]),
        ("__device__ const float *kept;", ["kept"]),
        ("__device__ void f() {}\nint kept;", ["kept"]),
        ("pair<pair<int>> kept;", ["kept"]),
        ("pair<pair<pair<pair<int>>>, 3> kept;", ["kept"]),
        ("struct S { static __device__ int v; };", ["v"]),
        ("__global__ void k() { static int calls; }", ["calls"]),
        ("template <int N> __device__ int kept;", ["kept"]),
        ("__device__ const float table[2] = {1, 2};", []),
        ("__constant__ float table[2];", []),
        ("constexpr int N = 4;\nconst float pi = 3.14f;", []),
        ("__device__ float f(float x);\n__device__ float f(float x) { return x; }", []),
        ("typedef struct { float x, y; } Point;\nusing Real = float;\nenum { A = 1, B };", []),
        ("struct S { float x; __device__ float get() const { return x; } };", []),
        ("template <typename T> __device__ T twice(T x) { T y = x; return y + y; }", []),
        ("template <> struct S<int> { int v; };", []),
        ('struct S; class T;\nusing namespace hidden;\nstatic_assert(4 == 4, "");', []),
        ("__global__ void __launch_bounds__(256) k(float *x) { __shared__ float s[4]; int i = 0; }", []),
        ("__device__ __forceinline__ float4 operator+(float4 a, float4 b) { return a; }", []),
    ],
)
def test_variables_that_keep_state_are_found(code: str, names: list[str]) -> None:
    found = static_variables(Source(code).plain)
    assert [variable.name for variable in found if not variable.constant] == names


@pytest.mark.parametrize(
    ("code", "check"),
    [
        ("#define volatile", "directives"),
        ("#define for if", "directives"),
        ("#define asm(x)", "directives"),
        ("#define WIDTH 16", None),
        ("#pragma unroll 4", None),
        ("#pragma nv_diagnostic push", None),
        ("#pragma diag_suppress = 177", None),
        ("#pragma message(x)", "directives"),
        ("#pragma", "directives"),
        ("#undef WIDTH", None),
        ('_Pragma("unroll 4")', None),
        ('_Pragma("message(x)")', "directives"),
        ("_Pragma(", "directives"),
        ("#define P(once) _Pragma(once)", "directives"),
        ('_Pragma(SAME("unroll"))', "directives"),
        ("[[maybe_unused]] int x; [[nodiscard]] __device__ int f();", None),
        ("[[noipa]] __device__ int f();", "host"),
        ("__device__ __attribute__((no_sanitize_thread)) void f() {}", "host"),
        ("#define ATTRIBUTE __attribute__\n__device__ ATTRIBUTE((noipa)) void f() {}", "host"),
        ("#define OPEN __attribute__((unused,\n__device__ OPEN noipa)) void f() {}", "host"),
        ("#define unused noipa\n__device__ __attribute__((unused)) void f() {}", "host"),
        ("#define WITH(unused) __attribute__((unused))\n__device__ WITH(noipa) void f() {}", "host"),
        ("#define OPEN [[\n__device__ OPEN noreturn ]] void f();", "host"),
        ("#define PACKED __attribute__((packed))\nstruct PACKED cell { int x; };", None),
        ("struct __attribute__((aligned(16))) cell { int x; };", None),
        ("__device__ __attribute__((constructor)) void f() {}", "host"),
        ("#define JOIN(a, b) a##b", "pasting"),
        ("#define JOIN(a) cl##a", "pasting"),
        ("#define JOIN(...) cl##__VA_ARGS__", "pasting"),
        ("#define JOIN(a) scale_##a", None),
        ("#define LAST(a, ...) f(a, ##__VA_ARGS__)", None),
        ("int caf\u00e9 = 1;", "characters"),
        ("int \\u0061sm;", "characters"),
        ("int a = 7 %: 2;", "characters"),
        ("int a = 7 % 2, b = 1 ? 2 : 3;", None),
        ("int a; // caf\u00e9", None),
    ],
)
def test_what_macros_and_spelling_may_not_hide(code: str, check: str | None) -> None:
    hiding = ("directives", "host", "pasting", "characters")
    assert set(findings(code, *hiding)) == ({check} if check else set())


def test_a_variable_is_found_on_the_line_of_its_name() -> None:
    found = static_variables(Source("struct S {\n  int v;\n} one,\n  two;\nint\n  three;").plain)
    assert [(variable.name, variable.line) for variable in found] == [("one", 3), ("two", 4), ("three", 6)]


def test_a_c_function_may_be_declared_before_it_is_defined() -> None:
    declared = 'extern "C" __device__ float half_of(float x);\n'
    assert findings(declared, "host") == ["host"]
    assert findings(declared + "__device__ float half_of(float x) { return x / 2; }\n", "host") == []


@pytest.mark.parametrize(
    "elsewhere",
    [
        "namespace n { __device__ float half_of(float x) { return x / 2; } }",
        "struct S { __device__ float half_of(float x) { return x / 2; } };",
        "__device__ float half(float x) { auto half_of = [](float y) { return y / 2; }; return half_of(x); }",
    ],
)
def test_a_function_of_another_scope_defines_no_c_function(elsewhere: str) -> None:
    assert findings(f'extern "C" __device__ float half_of(float x);\n{elsewhere}\n', "host") == ["host"]


@pytest.mark.parametrize(
    "code",
    [
        "long long t = (clock)();",
        "auto read = clock; long long t = read();",
        "long long t = (&clock64)[0]();",
        "{ int clock = 1; x[0] = clock; } long long t = (clock)();",
        "(free)(p);",
        '(open)("a", 0);',
        "auto leave = exit; leave(1);",
    ],
)
def test_a_function_of_the_host_is_refused_however_it_is_called(code: str) -> None:
    assert findings(f"__global__ void f(int *x, void *p) {{ {code} }}", "calls")[:1] == ["calls"]


@pytest.mark.parametrize(
    "code",
    [
        "__global__ void f(int *x) { int clock = x[0], free = x[1]; x[2] = clock + free; }",
        "__device__ int g(int free, int open);\n__device__ int g(int free, int open) { return free + open; }",
        "struct S { int open, clock; };\n__global__ void f(S *s) { s->open = s->clock; }",
        "__global__ void f(int *x) { if (x[0]) goto exit; x[1] = 2; exit: x[2] = 1; }",
        "#define INDEX int\n__global__ void f(int *x) { INDEX clock = x[0]; x[1] = clock; }",
    ],
)
def test_variables_and_labels_called_like_functions_of_the_host(code: str) -> None:
    assert findings(code, "calls") == []


@pytest.mark.parametrize(
    ("code", "allowed"),
    [
        ("struct S { mutable int kept; };\n__device__ const S s{};", False),
        ("#define KEPT mutable\nstruct S { KEPT int kept; };", False),
        ("__device__ int f(int x) { auto g = [=]() mutable { return x++; }; return g(); }", True),
        ("template <class T> struct Of;\ntemplate <> struct Of<int> { int x; };", True),
        ("template <class T> __device__ T kept;", False),
    ],
)
def test_constants_have_no_members_that_can_be_written(code: str, allowed: bool) -> None:
    assert (static.check_source(Side(code, ()), ("state",)) == ()) == allowed


def test_a_pointer_to_a_member_is_no_product_with_zero() -> None:
    assert findings("__device__ float f(S s, float S::*axis) { return s.*axis + s.*axis; }", "sham") == []
    assert findings("__device__ float f(float x) { return x * 0.0f; }", "sham") == ["sham"]


SHAM = [
    "int r = 0; while (r < 100) { x[0] = a[0]; r++; }",
    "int r = 9; while (r > 0) { float s = 0; for (int j = 0; j < n; j++) s += a[j]; x[0] = s; r -= 1; }",
    "// deliberately slow\n x[0] = a[0];",
    "/* intentionally\n   inefficient */",
    "float sandbag = 0;",
    "int deoptimized_index = n;",
    "x[0] = a[0] + expf(a[1]) * 0.0f;",
    "x[0] += 0. * sinf(a[1]);",
    "float t = a[0]; t *= 0.f; x[0] = t;",
    "for (int r = 0; r < 100; r++) x[0] = a[0];",
    "for (int r = 0; r < 100; r++) { float s = 0; for (int j = 0; j < n; j++) s += a[j]; x[0] = s; }",
    "float s; for (int r = 0; r < 9; r++) { s = 0; for (int j = 0; j < n; j++) { s += a[j]; } }",
    "for (int r = 0; r < n; r++) ;",
    "for (int r = 0; r < n; r++) { __syncthreads(); __threadfence(); }",
    "volatile int idle = 0;",
    "for (int r = 0; r < 50; ++r) { if (n > 3) { x[n] = sqrtf(a[n]); } else x[n] = 0; }",
]
HONEST = [
    "int j = 0; while (j < n) { x[0] += a[j]; j++; }",
    "int j = 0; while (j < n) { x[j] = a[0]; j++; }",
    "while (lo < hi) { int mid = (lo + hi) / 2; if (a[mid] < x[0]) lo = mid + 1; else hi = mid; }",
    "while (n > 0) { x[0] -= 1; n--; }  // the naive way, not optimized; no redundant work",
    "do { x[0] = a[n]; n--; } while (n > 0);",
    "x[0 * 32 + n] = a[1 * 32 + n] * 0.5f;",
    "x[0] = 2 * 0.25f + fmaxf(a[0], 0.0f) * 10.0f;",
    "for (int j = 0; j < n; j++) x[0] += a[j];",
    "float s = 0; for (int j = 0; j < n; j++) s = s + a[0];",
    "for (int it = 0; it < n; it++) { x[0] = x[1]; __syncthreads(); }",
    "for (int it = 0; it < 9; it++) { float t = x[0]; for (int j = 0; j < n; j++) t += a[j]; x[0] = t; }",
    "for (int j = 0; j < n; j++) { if (n > 4) if (s = a[0]) x[1] = 0; x[0] = s; }",
    "for (int j = 0; j < 32; j++) { swap(x, n); }",
    "for (int j = 0; j < n; j++) if (a[0] > 0) break;",
    "for (int j = 0; j < n; j++) x[k++] = 0;",
    "for (int j = 0, k = 0; j < n; j++, k += 4) x[k] = a[0];",
    "for (int j = 0; j < n; j++) { x[n * j] = 1.0f; }",
    "for (int j = 0; j < n; j++) { p = next; next = p; }",
    "for (int s = n / 2; s > 0; s >>= 1) { if (threadIdx.x < s) x[0] += x[s]; __syncthreads(); }",
    "for (int i = 0; i < 4; i++) atomicAdd(x, 1.0f);",
    "for (int i = 0; i < 4; i++) { seed = hash(seed); }",
    "for (int i = 0; i < 4; i++) { m = m * 3; m = m % n; }",
    "for (int i = 0; i < 4; i++) *x++ = 0;",
    "for (int i = 0; i < 4; i++) for (int j = 0; j < n; j++) s += a[j];",
    "__shared__ volatile float part[32];",
]  # fmt: skip


@pytest.mark.parametrize("body", SHAM)
def test_sham_work_is_refused(body: str) -> None:
    assert findings(kernel(body), "sham") == ["sham"]


@pytest.mark.parametrize("body", HONEST)
def test_loops_that_make_progress_are_allowed(body: str) -> None:
    assert findings(kernel(body), "sham") == []


def fills(*values: int | float | str) -> tuple[Fill, ...]:
    return tuple(Fill("x", value, at, 1) for at, value in enumerate(values))


def test_plans_with_many_constants_are_refused() -> None:
    def hits(*steps: Step) -> int:
        return len(static.check_source(Side("", steps), ("literal_plan",)))

    assert hits(*fills(*(0.5 + i for i in range(65)))) == 1
    assert hits(*fills(*(str(i) for i in range(65)))) == 1
    assert hits(*(Launch("k", (1,), (1,), (ValueArg(i),)) for i in range(65))) == 1
    assert hits(For("i", 1, fills(*range(65)))) == 1
    assert hits(*fills(*(0.5 + i for i in range(64)))) == 0
    assert hits(*fills(*(["n*2"] * 100))) == 0
    assert hits(*(Launch("k", (1,), (1,), (ValueArg(f"n+{i}"),)) for i in range(100))) == 0


def test_labels_are_hints_only() -> None:
    side = store.read_candidate(CHEATS / "label_names").fast
    assert static.check_source(side) == ()
    hints = [found.what for found in static.hints(side)]
    assert hints == ["a comment says 'optimized'", "the name 'fast_result'"]


@pytest.mark.parametrize(
    "text", ["", "'", '"', "/*", "#", "#define X \\", 'R"(', "asm(", "\\", "for (", "{{{", "template"]
)
def test_checks_survive_broken_code(text: str) -> None:
    tokenize(text)
    findings(text)
    findings(kernel(text))


# At the maximum size each takes a quadratic check minutes, and overflows the stack of a recursive one.
WORST_CASES = [
    "for(",
    "for(;;)",
    "for(;;){",
    "if(x)",
    '\\"',
    'R"(',
    "asm(",
    'extern "C" { f(',
    'extern "C" void f();\n',
    "static f() ",
    "__attribute__((",
    "(int*(",
    "union U {",
    "{",
    "}",
]


@pytest.mark.parametrize("unit", WORST_CASES)
def test_checks_are_linear_on_their_worst_cases(unit: str) -> None:
    code = unit * (32 * 1024 // len(unit))
    started = time.process_time()
    findings(code)
    kernel_uses(code)
    assert time.process_time() - started < 2.0


@pytest.mark.parametrize(
    ("code", "what"),
    [
        ("int a;" * 50_000, "KiB"),
        ("a " * 90_000, "tokens"),
        ("(" * 101, "deep"),
    ],
)
def test_oversized_code_is_refused_first(code: str, what: str) -> None:
    (found,) = static.check_source(Side(code, ()), ("calls",))
    assert found.check == "size"
    assert what in found.what


@pytest.mark.parametrize("code", ["integer " * 32 * 1024, "a " * 80_000, "(" * 100])
def test_code_as_large_as_the_limit_is_not_refused_for_its_size(code: str) -> None:
    assert findings(code, "size") == []


def test_findings_per_check_are_limited() -> None:
    assert len(findings(kernel("clock64();\n" * 500), "calls")) == static.MAX_FINDINGS


@pytest.mark.parametrize(
    ("parameters", "body", "uses"),
    [
        ("float *x, const float *a, int n", "x[n] = a[n];", [(False, True), (True, False), (False, False)]),
        ("float *x, float v", "x[0] += v;", [(True, True), (False, False)]),
        ("float *x, int n", "if (n) *x = 1; else x[1] = 2;", [(False, True), (False, False)]),
        ("float **rows", "*rows[0] = 1;", [(True, True)]),
        ("float *x", "fill(x);", [(True, True)]),
        ("const float *a", "((float *)a)[0] = 1;", [(True, True)]),
        ("float *x", "", [(True, True)]),
    ],
)
def test_what_a_kernel_may_read_and_write_is_told_by_parameter(
    parameters: str, body: str, uses: list[tuple[bool, bool]]
) -> None:
    found = kernel_uses(f"__global__ void k({parameters}) {{ {body} }}")
    assert found == {"k": tuple(uses)}


WORDS = """for if else ( ) { } [ ] ; , = += ++ * & < > << :: # ## \\ " ' R"( )" /* */ // asm static __device__
    __global__ extern "C" struct union template namespace volatile float int x n 0 0.0f define include"""
PIECES = st.sampled_from([*WORDS.split(), "\n"])


@given(st.lists(PIECES, max_size=60))
def test_checks_survive_random_token_sequences(pieces: list[str]) -> None:
    for code in ("".join(pieces), " ".join(pieces)):
        findings(code)
        static.hints(Side(code, ()))
        kernel_uses(code)


@pytest.mark.parametrize(
    "head",
    [
        'extern "C" __launch_bounds__(256) __global__ void k',
        'extern "C" void __global__ k',
        'extern "C" [[maybe_unused]] __global__ void k',
        'extern "C" __attribute__((unused)) __global__ void k',
        'extern "C" void __launch_bounds__(64, 2) __global__ k',
        "static __launch_bounds__(64) __global__ void k",
    ],
)
@pytest.mark.parametrize(
    "shared",
    [
        "extern float __shared__ s[];",
        "__shared__ extern float s[];",
        "extern __align__(16) __shared__ float s[];",
        "alignas(16) extern __shared__ float s[];",
    ],
)
def test_specifiers_may_stand_in_any_order(head: str, shared: str) -> None:
    code = f"{head}(float *x, int n) {{ {shared} s[0] = n; x[0] = s[0]; }}"
    assert static.check_source(Side(code, ())) == ()


@pytest.mark.parametrize(
    "declared",
    [
        'extern "C" int (*call)(int);',
        'extern "C" int count;',
        'extern "C" int read2(int);',
        "extern int x;",
        'extern "C++" { int f(); }',
        'extern "C" { extern int y; }',
    ],
)
def test_what_is_defined_elsewhere_is_refused(declared: str) -> None:
    assert "host" in {finding.check for finding in static.check_source(Side(declared, ()), ("host",))}
