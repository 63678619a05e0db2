"""Large trees: the cost of a file does not grow with the number of files, nor does memory."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from kcurate.core import store
from kcurate.extract import sources, stage
from kcurate.extract.naming import unique
from kcurate.extract.settings import ExtractConfig
from kcurate.records import Kernel

KERNEL = "__global__ void scale(float *a, int n) { int i = threadIdx.x; if (i < n) a[i] *= 2; }\n"
HOST = "__global__ void scale(float *a, int n);\nvoid run(float *a) { scale<<<1, %d>>>(a, %d); }\n"


def kernels(workspace: Path) -> dict[str, Kernel]:
    found = (workspace / "kernels").rglob("kernel.json")
    return {kernel.id: kernel for kernel in (store.read_json(path, Kernel) for path in found)}


def collection(root: Path, count: int) -> Path:
    """Repositories, each with a kernel of one name and, in another file, the launch of it."""
    for number in range(count):
        folder = root / f"repo{number}" / "code"
        folder.mkdir(parents=True)
        (folder / "kernel.cu").write_text(KERNEL)
        (folder / "host.cu").write_text(HOST % (32 * (number + 1), number))
    return root


def test_parts_of_a_collection_give_what_the_whole_gives(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tree = collection(tmp_path / "tree", 7)
    parts: list[int] = []
    whole = stage.run(ExtractConfig((tree,), tmp_path / "whole", compile=False))
    monkeypatch.setattr(sources, "BUNDLE_FILES", 4)
    read = stage.read_part

    def counted(files: sources.TreeFiles, *rest: object, **named: object) -> object:
        parts.append(len(files.found))
        return read(files, *rest, **named)  # type: ignore[arg-type]

    monkeypatch.setattr(stage, "read_part", counted)
    split = stage.run(ExtractConfig((tree,), tmp_path / "split", compile=False))
    assert parts == [4, 4, 4, 2]
    assert split.counts == whole.counts and kernels(tmp_path / "split") == kernels(tmp_path / "whole")
    lines = [
        sorted(json.loads(line)["path"] for line in path.read_text().splitlines())
        for path in sorted(tmp_path.glob("*/runs/*/files.jsonl"))
    ]
    assert lines[0] == lines[1] and len(lines[0]) == 14


def test_a_kernel_has_the_launches_that_are_nearest_to_it(tmp_path: Path) -> None:
    inner = collection(tmp_path / "tree" / "all", 90)
    (tmp_path / "tree" / "README").write_text("one repository")
    stage.run(ExtractConfig((inner.parent,), tmp_path / "work", compile=False))
    blocks = {
        kernel.id: [site.block for site in kernel.launch_sites]
        for kernel in kernels(tmp_path / "work").values()
    }
    assert len(blocks) == 90
    for identifier, found in blocks.items():
        number = int(identifier.split("repo")[1].split("/")[0])
        assert found == [str(32 * (number + 1))]


def test_repeated_names_are_numbered_without_counting_each_time() -> None:
    assert unique(["a", "a-2", "a", "a", "b", "a-2"]) == ["a", "a-2", "a-3", "a-4", "b", "a-2-2"]
    assert unique(["a"] * 50_000)[-1] == "a-50000"
