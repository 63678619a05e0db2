"""Kernels' own text: what is read and written behind each pointer, and how far indices go."""

from __future__ import annotations

import pytest

from kcurate.cuda_source.semantics.c_expressions import parse
from kcurate.cuda_source.semantics.code_index import Code, Function
from kcurate.cuda_source.semantics.pointer_usage import usage as usage_of
from kcurate.draft.algebra import factor, number
from kcurate.draft.inferred.index_bounds import Bounds
from kcurate.draft.inferred.launch_configuration import at_sample


def kernel_of(text: str) -> tuple[Code, Function]:
    code = Code(text.encode())
    (kernel,) = (one for one in code.functions if one.kernel)
    return code, kernel


def usage(body: str, before: str = "") -> str:
    code, kernel = kernel_of(f"{before}\n__global__ void k(float *p, const float *q, int n) {{ {body} }}")
    found = usage_of(code, kernel, "p")
    return "".join(
        letter
        for letter, there in (
            ("r", found.read),
            ("w", found.written),
            ("a", found.atomic),
            ("u", found.unknown),
        )
        if there
    )


@pytest.mark.parametrize(
    ("body", "meant"),
    [
        ("p[n] = q[n];", "w"),
        ("p[n] += q[n];", "rw"),
        ("float x = p[n]; if (p[n] == x) return;", "r"),
        ("*(p + n) = 1;", "w"),
        ("float *a = p + n; a[2] = 1;", "w"),
        ("float &a = p[n]; a = 1;", "w"),
        ("((float4 *)p)[n] = make_float4(1, 2, 3, 4);", "w"),
        ("reinterpret_cast<float2 *>(p)[n].x = 1;", "w"),
        ("atomicAdd(&p[n], 1.0f);", "rwa"),
        ("atomicAdd(p + n, 1.0f);", "rwa"),
        ("float x = __ldg(&p[n]);", "r"),
        ("put(p, n);", "w"),
        ("get(p + n);", "r"),
        ("elsewhere(p);", "rwu"),
        ("SET(p, n);", "w"),
        ("p[n]++;", "rw"),
        ("++p[n];", "rw"),
        ("--*p;", "rw"),
        ("*p = q[n];", "w"),
        ("if (n == 0) *p = q[n];", "w"),
        ("if (n) return; else *p = 1;", "w"),
        ("for (int i = 0; i < n; i++) *p += q[i];", "rw"),
        ("float x = (n) * *p;", "r"),
        ("int first = p - q; int x = (n) * first;", ""),
        ("float *a = p + n; x = a[1];", "r"),
        ("if (p) return;", ""),
        ("{ float *a = p; x = a[0]; } { float *a = p + 1; a[0] = 2; }", "rw"),
        ("{ float a[2]; a[0] = 1; } float *a = p; x = a[0];", "r"),
        ("float *a = n ? p : 0; a[1] = 2;", "w"),
        ("add(p[n], 1);", "rw"),
        ("float2 v = *reinterpret_cast<const float2 *>(&p[2 * n]);", "r"),
        ("p[n] = 2 * p[n];", "rw"),
    ],
)
def test_usage(body: str, meant: str) -> None:
    before = """
    #define SET(a, i) a[i] = 0
    __device__ void put(float *a, int i);
    __device__ void put(float *a, int i) { a[i] = 1; }
    __device__ float get(const float *a) { return a[0]; }
    __device__ void add(float &to, float x) { to += x; }
    """
    assert usage(body, before) == meant


@pytest.mark.parametrize(
    ("body", "meant"),
    [
        ("if (i < n) p[i] = 1;", "n"),
        ("if (i >= n) return; p[2 * i + 1] = 1;", "2*n"),
        ("if (i < n) for (int j = 0; j < m; j++) p[i * m + j] = 1;", "m*n"),
        ("p[i] = 1;", "64*blocks"),
        ("p[i % m] = 1;", "m"),
        ("if (i < n) p[i / 2] = 1;", "((n - 1)/2) + 1"),
        ("p[q[i]] = 1;", None),
        ("int2 v = {1, 2}; p[v.x] = 1;", None),
        ("p += n; p[i] = 1;", None),
    ],
)
def test_extent(body: str, meant: str | None) -> None:
    body = f"int i = blockIdx.x * blockDim.x + threadIdx.x; {body}"
    code, kernel = kernel_of(f"__global__ void k(float *p, const int *q, int n, int m) {{ {body} }}")
    scalars = {"n": factor("n"), "m": factor("m")}
    bounds = Bounds(code, kernel, scalars, (64,), (factor("blocks") * number(1),))
    found = bounds.extent("p", at_sample)
    assert (found.expr() if found else None) == meant


def bounds_of(body: str, **scalars: str) -> Bounds:
    code, kernel = kernel_of(f"__global__ void k(float *p, int a, int b) {{ {body} }}")
    known = {name: factor(value) for name, value in scalars.items()}
    return Bounds(code, kernel, known, (64,), (factor("blocks"),))


@pytest.mark.parametrize(
    ("body", "text", "meant"),
    [
        ("int c = 2 * a; int d = c + 1;", "d * b", "2*b*m + b"),
        ("const int c = b; int d = c / 2;", "d", "(b/2)"),
        ("int c = blockDim.x * gridDim.x;", "c", "64*blocks"),
        ("int c = threadIdx.x;", "c + 1", None),
        ("int c = 1; c = 2;", "c", "c"),
    ],
)
def test_a_local_variable_that_is_set_once_is_its_value(body: str, text: str, meant: str | None) -> None:
    node = parse(text)
    assert node is not None
    found = bounds_of(body, a="m").exact(node)
    assert (found.expr() if found else None) == meant


def test_variables_that_are_exchanged_have_no_value_but_end() -> None:
    node = parse("a")
    assert node is not None
    found = bounds_of("int t = a; a = b; b = t; p[threadIdx.x / a] = 1;").exact(node)
    assert found is None or found.constant is None


def test_counted_loops_have_a_variable_a_start_and_an_end() -> None:
    body = """
    for (int i = a; i < b; i++) p[i] = 1;
    for (unsigned j = 0; 2 * j <= b - 1; j += 2) p[j] = 1;
    for (int more = 1; more; more--) p[more] = 1;
    for (; a < b;) a++;
    for (float &x : p) x = 1;
    """
    found = [(name, start, end) for name, start, end in bounds_of(body).loops()]
    assert found == [("i", parse("a"), parse("b")), ("j", parse("0"), parse("b - 1"))]
