"""Which known problem fits a piece of code: by the kernels that it defines, not those that it speaks of."""

from __future__ import annotations

from kcurate.suites.problems import find_problem


def test_a_problem_is_found_by_the_kernel_that_it_launches() -> None:
    code = "__global__ void\nfind_index_kernel (double *x) { }"
    known = find_problem("rodinia", "particlefilter", {"": code})
    assert known is not None
    assert "xj" in known.problem.buffers


def test_a_kernel_named_only_in_a_comment_is_not_found() -> None:
    code = "// once part of find_index_kernel\n__global__ void likelihood_kernel(double *x) { }"
    known = find_problem("rodinia", "particlefilter", {"": code})
    assert known is not None
    assert "likelihood" in known.problem.buffers


def test_code_without_a_known_kernel_has_no_problem() -> None:
    assert find_problem("rodinia", "particlefilter", {"": "__global__ void other(int n) { }"}) is None
    assert find_problem("rodinia", "no_such_benchmark", {"": "__global__ void kernel(int n) { }"}) is None
