"""Device functions written out in a kernel's body, for reading."""

from __future__ import annotations

from kcurate.cuda_source.semantics.code_index import Code
from kcurate.cuda_source.semantics.inlined_calls import MAX_CALLS, inlined


def body_of(source: str) -> str:
    """The body of the kernel `k`, with single spaces."""
    code = inlined(Code(source.encode()), "k")
    function = code.function("k")
    assert function is not None
    return " ".join(code.text[function.body : function.end].split())


def test_a_call_becomes_a_block_with_names_of_its_own() -> None:
    body = body_of("""
template <typename T, int STEP> __device__ void copy(const T *from, T *to, int count, int first) {
  int i = first * STEP;
  if (i < count) to[i] = from[i];
}
__global__ void k(const float *x, float *y, int n) { int i = 0; copy<float, 4>(x, y, n, i + threadIdx.x); }
""")
    assert "int first_0 = i + threadIdx.x;" in body
    assert "int i_0 = first_0 * 4; if (i_0 < n) y[i_0] = x[i_0];" in body


def test_a_returned_expression_stands_for_its_call() -> None:
    body = body_of("""
__device__ bool inside(int x, int width) { return x < width; }
__global__ void k(float *y, int n) { if (inside(threadIdx.x + 1, n)) y[threadIdx.x] = 1; }
""")
    assert "if (((threadIdx.x + 1) < (n))) y[threadIdx.x] = 1;" in body


def test_calls_of_calls_are_written_out_and_members_keep_their_names() -> None:
    body = body_of("""
struct Pair { float left, right; };
__device__ void set(Pair *p, float left, int at) { p[at].left = left; }
__device__ void both(Pair *p, int at) { set(p, 1.0f, at); }
__global__ void k(Pair *pairs, int i) { both(pairs, i); }
""")
    assert "pairs[i].left = left_" in body
    assert "both(" not in body


def test_a_parameter_that_its_function_changes_is_a_variable() -> None:
    body = body_of("""
__device__ void skip(float *p, int n) { p += n; *p = 1; }
__global__ void k(float *x, int n) { skip(x, n); }
""")
    assert "float* p_0 = x;" in body
    assert "p_0 += n;" in body


def test_methods_and_overloads_of_other_lengths_stay() -> None:
    body = body_of("""
struct Box { __device__ void fill(float *p) { p[0] = 1; } };
__device__ void fill(float *p, int n) { p[n] = 2; }
__global__ void k(float *x) { fill(x); }
""")
    assert "fill(x);" in body


def test_recursion_ends_and_macros_keep_their_meaning() -> None:
    code = inlined(
        Code(b"""
#define REAL float
__device__ void walk(REAL *x, int n) { x[n] = 1; walk(x, n - 1); walk(x, n - 2); }
__global__ void k(REAL *x, int n) { walk(x, n); }
"""),
        "k",
    )
    assert code.text.count("x[n") <= 2 * MAX_CALLS
    assert code.macros["REAL"] == "float"
