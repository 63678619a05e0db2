"""Launches that host code writes in other ways than `kernel<<<grid, block>>>(...)`."""

from __future__ import annotations

import pytest

from kcurate.cuda_source import extract_unit
from kcurate.cuda_source.semantics.code_index import Code
from kcurate.records import LaunchSite

KERNELS = """
template <class T, int V> __global__ void scale(T* x, T a, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) x[i] *= a * V;
}
__global__ void fill(float* x, int n) { if (threadIdx.x < n) x[threadIdx.x] = 1; }
__global__ void wipe(float* x, int n) { if (threadIdx.x < n) x[threadIdx.x] = 0; }
"""


def sites(host: str) -> dict[str, list[LaunchSite]]:
    """The launch sites of each kernel when this host code follows the kernels; those without are left out."""
    source = (KERNELS + host).encode()
    report = extract_unit("m.cu", {"m.cu": source}.get, lambda name, path: None)
    return {kernel.name: list(kernel.launch_sites) for kernel in report.kernels if kernel.launch_sites}


def told(site: LaunchSite) -> tuple[str, str, str | None, list[str]]:
    return site.grid, site.block, site.shared_bytes, [each.expression for each in site.arguments]


@pytest.mark.parametrize(
    ("call", "expected"),
    [
        ("cudaLaunchKernel((void*)fill, grid, dim3(64), args, 8, s);", ("grid", "dim3(64)", "8")),
        ("cudaLaunchKernel((const void *)&fill, grid, 64, args);", ("grid", "64", None)),
        ("cudaLaunchCooperativeKernel(reinterpret_cast<void*>(fill), 2, 3, args, 0, 0);", ("2", "3", "0")),
        ("cudaLaunchConfig_t c; c.gridDim = grid; c.blockDim = 9; cudaLaunchKernelEx(&c, fill, x, n);",
         ("grid", "9", "0")),
        ("cudaLaunchConfig_t c = {grid, 9, 4, s}; cudaLaunchKernelExC(&c, (void*)fill, args);",
         ("grid", "9", "4")),
        ("auto k = fill; cudaLaunchKernel((void*)k, grid, 64, args, 0, s);", ("grid", "64", "0")),
        ("void (*k)(float*, int) = &fill; k<<<1, 2>>>(x, n);", ("1", "2", None)),
        ("(fill)<<<1, 2>>>(x, n);", ("1", "2", None)),
    ],
)  # fmt: skip
def test_calls_of_the_runtime_and_pointers_are_launches(
    call: str, expected: tuple[str, str, str | None]
) -> None:
    host = "void h(float* x, int n, cudaStream_t s) { void* args[] = {(void*)&x, &n}; dim3 grid(n / 9);\n%s }"
    found = sites(host % call)
    assert list(found) == ["fill"]
    assert [told(site) for site in found["fill"]] == [(*expected, ["x", "n"])]


def test_each_kernel_that_a_pointer_may_hold_has_the_launch() -> None:
    found = sites("void h(float* x, int n, bool b) { auto k = b ? fill : wipe; k<<<1, n>>>(x, n); }")
    assert {name: [told(site) for site in some] for name, some in found.items()} == {
        "fill": [("1", "n", None, ["x", "n"])],
        "wipe": [("1", "n", None, ["x", "n"])],
    }


def test_a_wrapper_launches_what_its_callers_pass() -> None:
    found = sites(
        """
template <typename K, typename... A> void run(K kernel, int n, A&&... args) {
  int blocks = (n + 127) / 128;
  kernel<<<blocks, 128>>>(std::forward<A>(args)...);
}
template <auto F> void once(float* p, int m) { F<<<m, 32>>>(p, m); }
void h(float* x, int a, int b) {
  run(fill, a - b, x, a);
  run(scale<float, 4>, 8, x, 2.f, b);
  once<wipe>(x, b);
}
"""
    )
    assert [told(site) for site in found["fill"]] == [("(((a - b) + 127) / 128)", "128", None, ["x", "a"])]
    assert [told(site) for site in found["scale"]] == [("((8 + 127) / 128)", "128", None, ["x", "2.f", "b"])]
    assert found["scale"][0].template_args == ("float", "4")
    assert [told(site) for site in found["wipe"]] == [("b", "32", None, ["x", "b"])]


def test_a_macro_may_put_brackets_around_the_kernel() -> None:
    found = sites(
        "#define RUN(kernel, n, ...) (kernel)<<<(n) / 32, 32>>>(__VA_ARGS__)\n"
        "void h(float* x, int n) { RUN((scale<float, 2>), n, x, 2.f, n); RUN(fill, n, x, n); }"
    )
    assert {name: len(some) for name, some in found.items()} == {"scale": 1, "fill": 1}
    assert found["scale"][0].template_args == ("float", "2")


def test_a_macro_leaves_arrows_and_scopes_as_they_are() -> None:
    found = sites(
        "#define RUN(kernel, n, ...) (kernel)<<<(n), 32>>>(__VA_ARGS__)\n"
        "void h(S* s, float* x) { RUN(fill, s->n, x, std::max(s->n, 1)); }"
    )
    (site,) = found["fill"]
    assert "s -> n" in site.grid
    assert site.arguments[1].expression == "std :: max ( s -> n , 1 )"


def test_a_local_variable_of_a_kernels_name_changes_nothing() -> None:
    assert sorted(sites("void h(float* x, int n) { fill<<<1, n>>>(x, n); int fill = n; }")) == ["fill"]


def test_host_code_to_be_understood_has_the_same_launches() -> None:
    code = Code((KERNELS + "void h(float* x, int n) { auto k = fill; k<<<n, 32>>>(x, n); }").encode())
    assert [launch.kernel for launch in code.launches] == [b"fill"]
