"""Forms that hid what a kernel needs, or drew in what it does not: constraints, members, scopes."""

from __future__ import annotations

import pytest

from kcurate.cuda_source.semantics.code_index import Code
from kcurate.cuda_source.standalone.source_repairs import without_constraints
from kcurate.cuda_source.standalone.trimming import build_macros, trimmed
from tests.cuda_source.test_unit import compiles, only, unit

USES = "z[i] = thrust::conj(z[i]) * 2.f + w[i] / z[i]; w[i] -= thrust::exp(z[i]).real();"
CUPY = "z[i] = conj(z[i]) * T(2) - w[i]; w[i].imag(norm(z[i])); if (z[i] != w[i]) z[i] = -z[i];"


BODY = "{ int i = threadIdx.x; %s }\n"


@pytest.mark.parametrize(
    "source",
    [
        "#include <thrust/complex.h>\n"
        "__global__ void k(thrust::complex<float> *z, thrust::complex<float> *w) " + BODY % USES,
        "#include <thrust/complex.h>\nusing thrust::complex;\n"
        "template <class T> __device__ T size(complex<T> a) { return abs(a) + arg(a); }\n"
        "__global__ void k(complex<double> *z, double *r) "
        + BODY
        % "__shared__ complex<double> s[32]; s[i] = z[i]; s[i] *= 1.5; r[i] = size(s[i]);",
        "#include <cupy/complex.cuh>\n"
        "template <typename T> __global__ void k(complex<T> *z, complex<T> *w) "
        + BODY % CUPY
        + "template __global__ void k<float>(complex<float> *, complex<float> *);\n",
    ],
)
def test_complex_numbers_of_thrust_and_cupy_come_along(source: str) -> None:
    kernel = only(unit({"main.cu": source}))
    assert "complex" in kernel.shims
    assert compiles(kernel)


def test_complex_numbers_that_a_unit_has_itself_stay_its_own() -> None:
    own = "namespace thrust { template <class T> struct complex { T a, b; }; }\n"
    kernel = only(unit({"main.cu": own + "__global__ void k(thrust::complex<int> *z) { z->a = 1; }\n"}))
    assert kernel.shims == () and compiles(kernel)


@pytest.mark.parametrize(
    ("head", "plain"),
    [
        (
            "template <Real T, int N = 3> requires (N > 2) T f(T x)",
            "template <typename T, int N = 3>  T f(T x)",
        ),
        (
            "template <Real T, a::Real<int> U>\nrequires is_same_v<T, U> && (!C<U>) || D<T>::value\nT f(U x)",
            "template <typename T, typename U>\n\nT f(U x)",
        ),
        (
            "template <std::floating_point... T> requires requires (T t) { t + t; } void f(T... t)",
            "template <typename... T>  void f(T... t)",
        ),
        (
            "template <class T> T f(T x) requires Real<T> { return x; }",
            "template <class T> T f(T x)  { return x; }",
        ),
    ],
)
def test_constraints_are_dropped_with_what_joins_them(head: str, plain: str) -> None:
    changed = without_constraints(head.encode(), [b"Real"]).decode()
    assert "".join(changed.split()) == "".join(plain.split())


@pytest.mark.parametrize(
    "declared",
    [
        "template <class T> concept Real = sizeof(T) > 2;\n",
        "#ifdef BUILT\ntemplate <class T> concept Real = true;\n#endif\n",
        "#include <concepts_of_another_tree.h>\n",
    ],
)
def test_a_kernel_with_a_constraint_compiles_wherever_the_constraint_is(declared: str) -> None:
    source = (
        declared + "template <Real T> __device__ T two(T x) requires (sizeof(T) > 1) { return x + x; }\n"
        "template <Real T, int N>\nrequires (N > 0)\n__global__ void k(T *x) { x[N] = two(x[N]); }\n"
        "void run(float *x) { k<float, 4><<<1, 1>>>(x); }\n"
    )
    kernel = only(unit({"main.cu": source}))
    assert "constraint" in kernel.shims and kernel.instantiations == ("k<float, 4>",)
    assert compiles(kernel)


@pytest.mark.parametrize(
    "members",
    [
        "struct V { static constexpr int N = 2;\n  MEMBERS\n  union { int x, r; };\n  int y; };",
        "struct V { MEMBERS\n  enum { KIND };\n  union { int x; float f; };\n  int y; };",
        "struct V {\n  MEMBERS\n  int sum() { return x + y; }\n  int x, y;\n};\n"
        "__host__ int host(V v) { return v.sum(); }",
    ],
)
def test_a_macro_that_stands_for_members_is_no_type_of_what_follows(members: str) -> None:
    source = (
        "#define MEMBERS __device__ int twice() { return 2 * y; }\n" + members + "\n"
        "__global__ void k(V *v) { v->x = v->twice(); }\n"
    )
    kernel = only(unit({"main.cu": source}))
    assert b"__device__ MEMBERS" not in kernel.code
    assert compiles(kernel)


@pytest.mark.parametrize("call", ["Right::go(x)", "lib::Right::go(x)", "lib::Right::go<1>(x)"])
def test_a_method_of_another_class_is_not_called(call: str) -> None:
    head = "template <int N = 0> " if "<1>" in call else ""
    source = (
        f"namespace lib {{ struct Right {{ {head}static __device__ int go(int x) {{ return x + 1; }} }}; }}\n"
        "using lib::Right;\nclass Wrong { int go(int x) const; FILE *file; };\n"
        'int Wrong::go(int x) const { return fprintf(file, "x"); }\n'
        f"__global__ void k(int *v) {{ int x = v[0]; v[1] = {call}; }}\n"
    )
    kernel = only(unit({"main.cu": source}))
    assert b"Wrong" not in kernel.code
    assert compiles(kernel)


def errors(code: str, *marked: str) -> list[int]:
    return [line for line, text in enumerate(code.splitlines(), 1) if any(mark in text for mark in marked)]


KERNEL = "__global__ void k(int *v) { v[0] = 1; }\n"


@pytest.mark.parametrize(
    ("code", "mark", "stays"),
    [
        ("struct Bad { std::string s; };\n", "std::string", False),
        ("struct Bad { std::string s; };\nstruct Bad *later;\n", "std::string", False),
        ("struct Bad { std::string s; };\nint Bad::size() { return 1; }\n", "std::string", False),
        # Another declaration would be meant in its place.
        ("int f(float x) { return std::stoi(x); }\nint f(int x) { return x; }\n", "std::stoi", True),
        (
            "template <class T> struct A { int x; };\ntemplate <> struct A<int> { std::string s; };\n",
            "string",
            True,
        ),
        ("int hypot(int x) { return std::stoi(x); }\n", "std::stoi", True),
        ("struct S {};\nS operator+(S a, S b) {\n  return std::stoi(a);\n}\n", "std::stoi", True),
    ],
)
def test_what_does_not_compile_goes_only_if_nothing_else_could_be_meant(
    code: str, mark: str, stays: bool
) -> None:
    source = code + KERNEL
    left = trimmed(source.encode(), errors(source, mark), "k", lambda names: names & {b"hypot"}).decode()
    assert (mark in left) == stays
    assert left.endswith(KERNEL) and left.count("\n") == source.count("\n")


def test_a_kernel_stays_whatever_its_errors() -> None:
    assert trimmed(KERNEL.encode(), [1], "k", lambda names: set()) == KERNEL.encode()


@pytest.mark.parametrize(
    ("code", "known", "lines"),
    [
        ("void k(const IN_T *a, int n)", {}, "#define IN_T float\n"),
        ("complex<IN_T> x;", {"IN_T": "double"}, "#define IN_T double\n"),
        ("__shared__ int s[IN_T];", {"IN_T": "32"}, "#define IN_T 32\n"),
        ("__shared__ int s[IN_T];", {}, ""),
        ("if (n < IN_T) return;", {}, ""),
    ],
)
def test_names_that_only_a_build_defines(code: str, known: dict[str, str], lines: str) -> None:
    assert build_macros(code.encode(), {"IN_T"}, known).decode() == lines


@pytest.mark.parametrize(
    "body",
    ["__launch_bounds__(64)", "__launch_bounds__(N / 2, 1)", "__attribute__((used)) __launch_bounds__(N)"],
)
def test_a_macro_of_launch_bounds_is_no_part_of_a_kernels_name(body: str) -> None:
    source = (
        f"#define N 64\n#define TILE_BOUND {body}\n__global__ void TILE_BOUND\nfill(int *v) {{ *v = 1; }}\n"
    )
    assert [function.name for function in Code(source.encode()).functions] == ["fill"]


@pytest.mark.parametrize("before", ["HD", "inline HD", "constexpr", "HD constexpr"])
@pytest.mark.parametrize("template", ["template <int N> ", ""])
def test_a_macro_call_that_is_a_device_function_gets_no_annotation_before_it(
    template: str, before: str
) -> None:
    source = (
        "#define HD __host__ __device__\n"
        f"#define SUMS(name, type, step, ...) {template}{before} type name(__VA_ARGS__) {{ \\\n"
        "  type sum = 0; step; return sum; }\n"
        "SUMS(both, int, sum += x + y, int x, int y)\n"
        f"__global__ void k(int *v) {{ v[0] = both{'<3>' * bool(template)}(v[1], v[2]); }}\n"
    )
    assert compiles(only(unit({"main.cu": source})))


@pytest.mark.parametrize(
    ("literal", "use"),
    [
        ('constexpr int operator""_kb(unsigned long long v) { return v * 1024; }', "4_kb"),
        ('__device__ float operator "" _x2(long double v) { return 2 * v; }', "1.5_x2"),
        (
            'inline namespace n { __device__ int operator""_i(char c) { return c; } }',
            "'a'_i",
        ),
    ],
)
def test_a_literal_of_the_users_own_comes_along(literal: str, use: str) -> None:
    kernel = only(unit({"main.cu": f"{literal}\n__global__ void k(float *v) {{ v[0] = {use}; }}\n"}))
    assert compiles(kernel)


@pytest.mark.parametrize(
    "table",
    ["F table[] = {k<1>, k<2>};", "static const F table[2] = {&k<1>, &k<2>};", "F one = k<1>, two = k<2>;"],
)
def test_a_kernel_in_a_table_has_the_arguments_that_stand_there(table: str) -> None:
    text = "template <int N> __global__ void k(int *v) { v[N] = N; }\nusing F = void (*)(int *);\n" + table
    assert only(unit({"main.cu": text + "\n"})).instantiations == ("k<1>", "k<2>")
