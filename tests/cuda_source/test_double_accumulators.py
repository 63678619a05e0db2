"""Which variables become `double`, what keeps its type, and what is left alone."""

from __future__ import annotations

import pytest

from kcurate.cuda_source.rewrite.double_accumulators import wider_accumulation

HEAD = 'extern "C" __global__ void work(const float* x, float* y, int n) { '


def wider(body: str, head: str = HEAD) -> str | None:
    """The wider code of a kernel with this body (or, with another head, of this code)."""
    found = wider_accumulation(f"{head}{body}{'}' if head else ''}".encode())
    return None if found is None else found.decode()


@pytest.mark.parametrize(
    ("body", "widened"),
    [
        ("float s = 0; for (int i = 0; i < n; i++) s += x[i]; *y = s;", "double s = 0;"),
        ("float s = 0; for (int i = 0; i < n; i++) s = s + x[i]; *y = s;", "double s = 0;"),
        ("float s[4] = {}; for (int i = 0; i < n; i++) s[i & 3] += x[i]; *y = s[0];", "double s[4] = {};"),
        ("__shared__ float p[64]; p[0] = x[0]; p[0] += p[1]; *y = p[0];", "__shared__ double p[64];"),
        ("float s = 0; for (int i = 0; i < n; i++) s -= x[i]; *y = s;", "double s = 0;"),
    ],
)
def test_accumulators_become_double(body: str, widened: str) -> None:
    found = wider(body)
    assert found is not None
    assert widened in found
    assert "const float* x, float* y" in found
    assert found.count("double") == 1


def test_a_fused_multiply_add_onto_an_accumulator_is_done_in_double() -> None:
    found = wider("float s = 0; for (int i = 0; i < n; i++) s = fmaf(x[i], x[i], s); *y = s;")
    assert found is not None
    assert "s = fma((double)(x[i]), (double)(x[i]), (double)(s));" in found


def test_what_is_passed_by_pointer_has_one_type_at_both_ends() -> None:
    code = """
__device__ void add(float (*sums)[2], const float* row) { sums[0][1] += row[0]; }
__device__ float warp(float v) { for (int d = 16; d; d /= 2) v += __shfl_down_sync(~0u, v, d); return v; }
extern "C" __global__ void work(const float* x, float* y) {
    float sums[2][2] = {};
    add(sums, x);
    *y = warp(sums[0][1]);
}
"""
    found = wider(code, "")
    assert found is not None
    assert "void add(double (*sums)[2], const float* row)" in found
    assert "float warp(double v)" in found
    assert "double sums[2][2] = {};" in found


@pytest.mark.parametrize(
    "body",
    [
        "y[0] = x[0] * 2.0f;",
        "int s = 0; for (int i = 0; i < n; i++) s += i; y[0] = s;",
        "double s = 0; for (int i = 0; i < n; i++) s += x[i]; y[0] = s;",
        "float s = 0; for (int i = 0; i < n; i++) s += x[i]; atomicAdd(y, s);",
        "float s = x[0]; s += x[1]; for (int i = 0; i < n; i++) y[i] += s;",
        "float s[4]; s[0] += x[0]; float4 v = *reinterpret_cast<float4*>(s); y[0] = v.x;",
        "float s[4]; s[0] += x[0]; float4 v = *(float4*)s; y[0] = v.x;",
        "float4 s; s.x += x[0]; y[0] = s.x;",
    ],
)
def test_sums_elsewhere_and_reinterpreted_floats_are_left_alone(body: str) -> None:
    assert wider(body) is None


def test_an_update_of_the_output_outside_of_loops_is_no_accumulation() -> None:
    body = "float s = 0; for (int i = 0; i < n; i++) s += x[i]; y[0] = 2.0f * s + y[0];"
    found = wider(body)
    assert found is not None
    assert "double s" in found
