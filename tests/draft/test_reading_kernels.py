"""Kernels' own text: what is read and written behind each pointer, and how far indices go."""

from __future__ import annotations

import pytest

from kcurate.draft.algebra import factor, number
from kcurate.draft.bounds import Bounds
from kcurate.draft.launching import at_sample
from kcurate.draft.usage import DeviceCode


def usage(body: str, before: str = "") -> str:
    code = DeviceCode(f"{before}\n__global__ void k(float *p, const float *q, int n) {{ {body} }}")
    found = code.usage(code.functions["k"], "p")
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
        ("if (p) return;", ""),
    ],
)
def test_usage(body: str, meant: str) -> None:
    before = """
    #define SET(a, i) a[i] = 0
    __device__ void put(float *a, int i) { a[i] = 1; }
    __device__ float get(const float *a) { return a[0]; }
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
        ("p[q[i]] = 1;", None),
        ("p += n; p[i] = 1;", None),
    ],
)
def test_extent(body: str, meant: str | None) -> None:
    body = f"int i = blockIdx.x * blockDim.x + threadIdx.x; {body}"
    code = DeviceCode(f"__global__ void k(float *p, const int *q, int n, int m) {{ {body} }}")
    scalars = {"n": factor("n"), "m": factor("m")}
    bounds = Bounds(code, code.body(code.functions["k"]), scalars, (64,), (factor("blocks") * number(1),))
    found = bounds.extent("p", at_sample)
    assert (found.expr() if found else None) == meant
