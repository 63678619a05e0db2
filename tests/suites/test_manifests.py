"""Manifests, layouts and the detection of suites."""

from __future__ import annotations

from pathlib import Path

import pytest

from kcurate.errors import InputError
from kcurate.suites import (
    Layout,
    Place,
    find_tree,
    forced_tree,
    generic_tree,
    load_manifest,
    load_manifests,
    locate,
)

TREES = Path(__file__).parent


def test_every_shipped_manifest_loads_and_names_its_file() -> None:
    manifests = load_manifests()
    assert {"generic", "parboil", "rodinia"} <= set(manifests)
    assert all(manifest.suite == name for name, manifest in manifests.items())


@pytest.mark.parametrize(
    ("suite", "path", "place"),
    [
        ("parboil", "benchmarks/bfs/src/cuda_base/kernel.cu", Place("bfs", "cuda_base", "kernel.cu")),
        ("parboil", "benchmarks/bfs/src/cuda/a/b.h", Place("bfs", "cuda", "a/b.h")),
        ("parboil", "benchmarks/bfs/src/opencl_base/kernel.cpp", None),
        ("parboil", "common/src/parboil_cuda.c", None),
        ("rodinia", "cuda/lud/cuda/lud.cu", Place("lud", None, "cuda/lud.cu")),
        ("rodinia", "cuda/srad/srad_v1/main.cu", Place("srad_v1", None, "main.cu")),
        ("rodinia", "openmp/lud/lud.c", None),
        ("generic", "rows/naive/sum.cu", Place("rows", "naive", "sum.cu")),
        ("generic", "rows/src/slow/sum.cu", Place("rows", "slow", "sum.cu")),
        ("generic", "a/b/c.cu", Place("a", None, "b/c.cu")),
        ("generic", "fast/c.cu", Place(None, "fast", "c.cu")),
        ("generic", "top.cu", Place(None, None, "top.cu")),
    ],
)
def test_a_path_gives_its_benchmark_and_variant(suite: str, path: str, place: Place | None) -> None:
    assert locate(load_manifests()[suite].layout, path) == place


def test_patterns_take_every_other_character_literally() -> None:
    layout = Layout(paths=("a.b/{benchmark}/**",))
    assert locate(layout, "a.b/x/y.cu") == Place("x", None, "y.cu")
    assert locate(layout, "aXb/x/y.cu") is None


def test_licences_come_from_the_file_then_the_benchmark_then_the_suite() -> None:
    rodinia = load_manifests()["rodinia"]
    assert rodinia.license_of("mummergpu", "cuda/mummergpu/src/mummergpu.cu") == "Artistic-1.0"
    assert rodinia.license_of("lud", "cuda/lud/cuda/lud.cu") == "BSD-3-Clause"
    nvidia = rodinia.license_of("huffman", "cuda/huffman/scanLargeArray_kernel.cu")
    assert nvidia == "LicenseRef-NVIDIA-CUDA-sample"
    assert rodinia.license_of("somebody-elses", "cuda/somebody-elses/x.cu") is None


@pytest.mark.parametrize("inside", ["", "benchmarks", "benchmarks/scale/src/cuda", "benchmarks/scale"])
def test_a_suite_is_found_from_any_folder_inside_it(inside: str) -> None:
    tree = find_tree(TREES / "parboil" / inside, load_manifests())
    assert tree is not None and tree.suite == "parboil" and tree.root == TREES / "parboil"


def test_a_tree_that_only_looks_like_a_suite_gets_none_of_its_facts() -> None:
    tree = find_tree(TREES / "rodinia", load_manifests())
    assert tree is not None and not tree.facts
    source = tree.source("path", "cuda/path/path.cu")
    assert (source.suite, source.url, source.license, source.revision) == ("rodinia", None, None, None)


def test_a_tree_with_known_benchmarks_gets_the_facts_of_those_alone(tmp_path: Path) -> None:
    for name in ("bfs", "sgemm", "stencil", "mine"):
        (tmp_path / f"benchmarks/{name}/src/cuda").mkdir(parents=True)
    tree = find_tree(tmp_path, load_manifests())
    assert tree is not None and tree.facts
    assert tree.source("sgemm", "benchmarks/sgemm/src/cuda/a.cu").license == "NCSA"
    assert tree.source("mine", "benchmarks/mine/src/cuda/a.cu").license is None


def test_the_checked_out_commit_is_the_revision(tmp_path: Path) -> None:
    commit = "0123456789abcdef0123456789abcdef01234567"
    git = tmp_path / "lib" / ".git"
    git.mkdir(parents=True)
    (git / "HEAD").write_text("ref: refs/heads/main\n")
    (git / "packed-refs").write_text(f"# pack-refs with: peeled\n{commit} refs/heads/main\n")
    generic = load_manifests()["generic"]
    assert generic_tree(tmp_path / "lib", generic).revision == commit
    (git / "packed-refs").write_text("garbage\n")
    assert generic_tree(tmp_path / "lib", generic).revision is None


def test_a_generic_tree_is_named_after_its_folder(tmp_path: Path) -> None:
    tree = forced_tree(tmp_path / "my lib (2)", load_manifests()["generic"])
    assert tree.suite == "my_lib_2"
    place = tree.locate("top.cu")
    assert place is not None and place.benchmark == "my_lib_2"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("suite = ", "not TOML"),
        ("suite = 'x'", "layout"),
        ("suite = 'x'\n[layout]\npaths = ['{benchmark}/x']", "must end with"),
        ("suite = '../x'\n[layout]\npaths = ['**']", "cannot be used as a folder name"),
        ("suite = 'x'\n[layout]\npaths = []", "must contain a pattern"),
        ("suite = 'x'\nmin_device_fraction = 2\n[layout]\npaths = ['**']", "between 0 and 1"),
        ("suite = 'x'\nwrong = 1\n[layout]\npaths = ['**']", "wrong"),
    ],
)
def test_a_bad_manifest_is_one_clear_error(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "x.toml"
    path.write_text(text)
    with pytest.raises(InputError, match=message) as error:
        load_manifest(path)
    assert str(path) in str(error.value)
