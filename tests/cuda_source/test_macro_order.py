"""A macro may name another one that is only defined after it."""

from __future__ import annotations

from kcurate.backends.cuda import nvrtc
from kcurate.cuda_source import whole_file


def test_a_macro_used_by_another_is_included_wherever_it_is_defined() -> None:
    code = b"""#define BOUND LIMIT(4, n)
#define LIMIT(a, b) b
#define UNUSED 3
__global__ void f(int *a, int n) { if (threadIdx.x < BOUND) a[threadIdx.x] = 1; }
"""
    (kernel,) = whole_file(code).kernels
    assert b"#define LIMIT(a, b) b" in kernel.code
    assert b"UNUSED" not in kernel.code


PUSHED = b"""#define TWICE (2 * TILE)
#define TILE 16
__global__ void before(int *x) { static_assert(TWICE == 32); }
#pragma push_macro("TILE")
#undef TILE
#define TILE 3
__global__ void inside(int *x) { static_assert(TILE == 3); }
__global__ void inside_twice(int *x) { static_assert(TWICE == 6); }
# pragma pop_macro( "TILE" )
__global__ void after(int *x) { static_assert(TILE == 16); }
__global__ void after_twice(int *x) { static_assert(TWICE == 32); }
"""


def test_a_pushed_and_popped_macro_has_its_old_definition() -> None:
    report = whole_file(PUSHED)
    assert len(report.kernels) == 5
    for code in (*(kernel.code for kernel in report.kernels), *(report.file_codes or {}).values()):
        result = nvrtc.compile_cubin(code)
        assert result.cubin is not None, result.log + code.decode()


def test_conditionals_know_what_was_pushed_and_popped() -> None:
    code = PUSHED + b"#if TILE == 16\n__global__ void last(int *x) { *x = 1; }\n#endif\n"
    absent = b"""#pragma push_macro("WIDE")
#define WIDE
#pragma pop_macro("WIDE")
#ifndef WIDE
__global__ void narrow(int *x) { *x = 1; }
#endif
"""
    assert [kernel.name for kernel in whole_file(code + absent).kernels][-2:] == ["last", "narrow"]
