"""PyTorch's packed accessors: in a kernel's file, and as a buffer with sizes and strides in its draft."""

from __future__ import annotations

from pathlib import Path

import pytest

from kcurate.cuda_source import extract_unit
from kcurate.cuda_source.text.brackets import split_arguments
from kcurate.draft.inferred import accessors
from kcurate.extract.settings import ExtractConfig
from kcurate.extract.stage import run

TYPE = "torch::PackedTensorAccessor32<scalar_t, 3, torch::RestrictPtrTraits>"
KERNEL = """#include <torch/extension.h>
template <typename scalar_t>
__global__ void scale({type} x, scalar_t by) {{
  const auto row = x[blockIdx.x];
  if (threadIdx.x < x.size(2)) row[0][threadIdx.x] *= by;
}}
void run(torch::Tensor t) {{
  scale<float><<<t.size(0), 256>>>(t.packed_accessor32<float, 3, torch::RestrictPtrTraits>(), 2.f);
}}
"""


@pytest.mark.parametrize(
    "type_text",
    [
        TYPE,
        "const at::PackedTensorAccessor64<scalar_t, 3>",
        "torch::PackedTensorAccessor<scalar_t, 3, at::DefaultPtrTraits, int>",
        "at::GenericPackedTensorAccessor<scalar_t, 3, at::RestrictPtrTraits, long long>",
    ],
)
def test_a_kernel_with_an_accessor_compiles_alone(tmp_path: Path, type_text: str) -> None:
    (tmp_path / "tree").mkdir()
    (tmp_path / "tree" / "a.cu").write_text(KERNEL.format(type=type_text))
    summary = run(ExtractConfig((tmp_path / "tree",), tmp_path / "work", compile=True, jobs=1))
    assert summary.counts["kernels"] == {"compiled": 1}


def test_accessors_of_the_tree_are_its_own() -> None:
    own = "namespace at { template <class T, int N> struct PackedTensorAccessor32 { T *data; }; }\n"
    text = own + "__global__ void k(at::PackedTensorAccessor32<float, 1> x) { x.data[0] = 1; }\n"
    report = extract_unit("a.cu", lambda path: text.encode(), lambda name, by: None)
    assert report.kernels[0].shims == () and b"sizes_" not in report.kernels[0].code


def test_a_launch_passes_one_accessor() -> None:
    report = extract_unit("a.cu", lambda path: KERNEL.format(type=TYPE).encode(), lambda name, by: None)
    [site] = report.kernels[0].launch_sites
    accessor = "t.packed_accessor32<float, 3, torch::RestrictPtrTraits>()"
    assert [argument.expression for argument in site.arguments] == [accessor, "2.f"]
    assert "tensor-accessor" in report.kernels[0].shims


@pytest.mark.parametrize(
    ("text", "pieces"),
    [
        (b"f<a, b>(c), d", [b"f<a, b>(c)", b"d"]),
        (b"a < b, c > d", [b"a < b", b"c > d"]),
        (b"i<n, g<a, b<c, d>>{}", [b"i<n", b"g<a, b<c, d>>{}"]),
        (b"x.f<T, 2>().g<U, 3>(), y", [b"x.f<T, 2>().g<U, 3>()", b"y"]),
    ],
)
def test_template_arguments_of_calls_split_no_arguments(text: bytes, pieces: list[bytes]) -> None:
    assert split_arguments(text) == pieces


@pytest.mark.parametrize(
    ("type_text", "offsets"),
    [
        (TYPE, [0, 8, 12, 16, 20, 24, 28]),
        ("at::PackedTensorAccessor64<float, 2>", [0, 8, 16, 24, 32]),
        ("const torch::PackedTensorAccessor<float, D, torch::DefaultPtrTraits, int32_t>", [0, 8, 12]),
    ],
)
def test_an_accessor_lies_in_memory_as_pytorchs(type_text: str, offsets: list[int]) -> None:
    inside = accessors.layout(type_text, {"D": "1"})
    assert inside is not None and [member.at for member in inside] == offsets
    assert accessors.layout("float *", {}) is None


def test_elements_and_sizes_become_members() -> None:
    body = "y[i][z[j]] = other.y[i][0] + y[i].data() + y.size(1) * y.stride(0);"
    assert accessors.with_members(body, "y", 2) == (
        "y.data[((i) * y.size_1 + (z[j]))] = other.y[i][0] + y[i].data() + y.size_1 * (y.size_1);"
    )
    values = {"data": 0, "size_0": 0, "size_1": "n", "size_2": 4, "stride_0": 0, "stride_1": 0, "stride_2": 0}
    strides = accessors.with_strides(values)
    assert [strides[f"stride_{axis}"] for axis in range(3)] == ["(n) * (4)", "(4)", 1]
