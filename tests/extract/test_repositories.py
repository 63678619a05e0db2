"""Which file an include means in a folder of repositories, and that many files of one name stay quick."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from kcurate.extract.includes import by_ending, repositories
from tests.extract.test_extract_stage import extract, kernels

KERNEL = '#include "shape.h"\n__global__ void k(int *v) { v[threadIdx.x] = EDGE; }\n'


def write(root: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    return root


@pytest.mark.parametrize(
    ("paths", "path", "repository"),
    [
        (["ann/src/a.cu", "ben/src/b.cu"], "ben/src/b.cu", "ben"),
        (["ann/one/src/a.cu", "ann/two/src/b.cu", "ben/x/c.cu", "ben/y/c.cu"], "ann/two/src/b.cu", "ann/two"),
        (["src/a.cu", "include/a.h"], "src/a.cu", ""),
        (["README.md", "first/a.cu", "second/a.h"], "first/a.cu", ""),
        (["ann/README.md", "ann/first/a.cu", "ann/second/a.h", "ben/b.cu"], "ann/first/a.cu", "ann"),
        (["only/src/a.cu", "only/b/a.h"], "only/src/a.cu", ""),
        (["a.cu"], "a.cu", ""),
    ],
)
def test_a_folder_of_nothing_but_folders_holds_repositories(
    paths: list[str], path: str, repository: str
) -> None:
    assert repositories(paths)(path) == repository


@pytest.mark.parametrize(
    ("include", "header"),
    [('"shape.h"', "deep/shape.h"), ("<shape.h>", "include/shape.h"), ('"../lib/shape.h"', "lib/shape.h")],
)
def test_an_include_is_never_taken_from_another_repository(tmp_path: Path, include: str, header: str) -> None:
    kernel = KERNEL.replace('"shape.h"', include)
    tree = write(
        tmp_path / "corpus",
        {
            "ann/src/a.cu": kernel, f"ann/{header}": "#define EDGE 8\n",
            "ben/src/b.cu": kernel.replace("k(", "other("),
        },
    )  # fmt: skip
    summary = extract(tmp_path / "work", tree, compile=True)
    compiled = {
        kernel.name: kernel.compiled and kernel.compiled.ok for kernel in kernels(tmp_path / "work").values()
    }
    assert compiled == {"k": True, "other": False}
    (lost,) = (item.why for item in summary.results if item.outcome == "compile_error")
    assert f"include not found: {include[1:-1]}" in lost


@pytest.mark.parametrize(
    ("name", "includer", "path"),
    [
        ("u.h", "a/b/x.cu", "a/b/c/u.h"),
        ("u.h", "a/d/x.cu", "a/u.h"),
        ("c/u.h", "a/d/x.cu", "a/b/c/u.h"),
        ("../../c/u.h", "e/x.cu", "e/f/c/u.h"),
        ("u.h", "g/x.cu", "a/u.h"),
        ("none.h", "g/x.cu", None),
        ("u.h", "a/u.h", "a/b/c/u.h"),
    ],
)
def test_of_files_with_a_name_the_nearest_is_meant(name: str, includer: str, path: str | None) -> None:
    paths = ["a/b/c/u.h", "a/u.h", "e/f/c/u.h", "g/other.h"]
    assert by_ending(paths)(name, includer) == path


def test_many_files_of_one_name_take_no_time_for_each_other() -> None:
    paths = [f"p{at % 7}/q{at}/inner/u.h" for at in range(20_000)]
    locate = by_ending(paths)
    start = time.monotonic()
    assert all(locate("u.h", path.replace("inner/u.h", "x.cu")) == path for path in paths)
    assert time.monotonic() - start < 5  # seconds; each compared with each: minutes
