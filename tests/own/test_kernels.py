"""`FILE.cu[:KERNEL]` on the command line: which kernel is meant, and one line for everything else."""

from __future__ import annotations

from pathlib import Path

import pytest

from kcurate.errors import InputError
from kcurate.own.kernels import find_kernels

TWO = """
namespace deep { __global__ void first(int *x) { x[threadIdx.x] = 1; } }
__global__ void second(int *x) { x[threadIdx.x] = 2; }
"""
ONE = '#include "part.h"\nextern "C" __global__ void only(int *x) { x[threadIdx.x] = part(3); }\n'


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "two.cu").write_text(TWO)
    (tmp_path / "one.cu").write_text(ONE)
    (tmp_path / "part.h").write_text("__device__ inline int part(int n) { return n / 2; }\n")
    (tmp_path / "empty.cu").write_text("")
    (tmp_path / "kernels.cuh").write_text(TWO)
    (tmp_path / "main.cu").write_text('#include "part.h"\n#include "kernels.cuh"\nint main() {}\n')
    (tmp_path / "notes.txt").write_text("__global__ void none() {}")
    return tmp_path


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("one.cu", "only"),
        ("one.cu:only", "only"),
        ("two.cu:second", "second"),
        ("two.cu:deep::first", "first"),
    ],
)
def test_a_kernel_is_found_by_file_and_name(folder: Path, text: str, name: str) -> None:
    (own,) = find_kernels([str(folder / text)], folder / "work")
    assert own.kernel.name == name
    assert own.data == own.path.read_bytes()
    assert (own.extracted.folder / "kernel.cu").read_text() == own.code
    assert ("int part(int n)" in own.code) == (name == "only")


def test_the_name_of_a_file_may_have_a_colon(folder: Path) -> None:
    (folder / "a:b.cu").write_text(ONE)
    (own,) = find_kernels([str(folder / "a:b.cu")], folder / "work")
    assert own.path.name == "a:b.cu"


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("none.cu", "No such file"),
        ("none.cu:only", "No such file"),
        (".", "is a folder"),
        ("empty.cu", "no CUDA kernel found"),
        ("main.cu", r"no CUDA kernel found \(it includes \S+/kernels.cuh: name that file\)"),
        ("notes.txt", "is no CUDA source by its name"),
        ("two.cu", r"2 kernels here .*two.cu:first, two.cu:second"),
        ("two.cu:third", r"no kernel 'third' here .*two.cu:first, two.cu:second"),
        ("two.cu:", r"2 kernels here"),
    ],
)
def test_what_names_no_kernel_is_one_line(folder: Path, text: str, what: str) -> None:
    with pytest.raises(InputError, match=what) as caught:
        find_kernels([str(folder / text)], folder / "work")
    assert "\n" not in str(caught.value)


def test_files_of_folders_of_one_name_are_read_together(folder: Path) -> None:
    for version in ("v1", "v2"):
        (folder / version / "src").mkdir(parents=True)
        (folder / version / "src" / "k.cu").write_text(f"// {version}\n{ONE}")
        (folder / version / "src" / "part.h").write_text((folder / "part.h").read_text())
    given = [str(folder / version / "src" / "k.cu") for version in ("v1", "v2")]
    first, second = find_kernels(given, folder / "work")
    assert first.kernel.id != second.kernel.id


def test_a_kernel_that_does_not_compile_is_named_with_the_first_error(folder: Path) -> None:
    pytest.importorskip("cuda.bindings.nvrtc")
    (folder / "bad.cu").write_text("__global__ void bad(int *x) { x[0] = nowhere; }\n")
    with pytest.raises(InputError, match=r"bad\.cu:1: bad does not compile by itself: .*nowhere"):
        find_kernels([str(folder / "bad.cu")], folder / "work")
