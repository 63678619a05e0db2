"""A launch is told to the kernel that it means, whatever else bears its name."""

from __future__ import annotations

import pytest

from kcurate.cuda_source import whole_file

KERNELS = """namespace fast { __global__ void run(float *x) { *x = 1; } }
namespace slow { __global__ void run(float *x) { *x = 2; }
  void inside(float *x) { run<<<1, 3>>>(x); } }
namespace idle { __global__ void run(float *x) { *x = 3; } }
namespace f = fast;
"""


@pytest.mark.parametrize(
    ("launch", "blocks"),
    [
        ("fast::run<<<1, 7>>>(x);", [["7"], ["3"], []]),
        (":: slow :: run<<<1, 7>>>(x);", [[], ["3", "7"], []]),
        ("f::run<<<1, 7>>>(x);", [["7"], ["3", "7"], ["7"]]),
        ("using namespace fast; run<<<1, 7>>>(x);", [["7"], ["3", "7"], ["7"]]),
        ("elsewhere::run<<<1, 7>>>(x);", [[], ["3"], []]),
        ("int y = n ? 1 : 2; fast::run<<<1, 7>>>(x);", [["7"], ["3"], []]),
    ],
)
def test_a_launch_belongs_to_the_kernel_of_its_namespace(launch: str, blocks: list[list[str]]) -> None:
    code = KERNELS + "void go(float *x, int n) { " + launch + " }\n"
    kernels = whole_file(code.encode()).kernels
    assert [[site.block for site in kernel.launch_sites] for kernel in kernels] == blocks


def test_a_launch_in_nested_namespaces_means_the_innermost_kernel() -> None:
    code = b"""namespace out { __global__ void run(float *x) { *x = 1; }
namespace in { __global__ void run(float *x) { *x = 2; } void go(float *x) { run<<<1, 1>>>(x); } } }
"""
    outer, inner = whole_file(code).kernels
    assert (len(outer.launch_sites), len(inner.launch_sites)) == (0, 1)


def test_a_template_is_instantiated_by_the_launches_of_its_own_namespace() -> None:
    code = b"""namespace a { template <typename T> __global__ void run(T *x) { *x = 1; } }
namespace b { template <typename T> __global__ void run(T *x) { *x = 2; } }
void go(float *x, int *y) { a::run<float><<<1, 1>>>(x); b::run<int><<<1, 1>>>(y); }
"""
    first, second = whole_file(code).kernels
    assert (first.instantiations, second.instantiations) == (("a::run<float>",), ("b::run<int>",))
