"""A macro may name another one that is only defined after it."""

from __future__ import annotations

from kcurate.cuda_source import whole_file


def test_macro_that_another_one_names_is_taken_along_wherever_it_is_defined() -> None:
    code = b"""#define BOUND LIMIT(4, n)
#define LIMIT(a, b) b
#define UNUSED 3
__global__ void f(int *a, int n) { if (threadIdx.x < BOUND) a[threadIdx.x] = 1; }
"""
    (kernel,) = whole_file(code).kernels
    assert b"#define LIMIT(a, b) b" in kernel.code
    assert b"UNUSED" not in kernel.code
