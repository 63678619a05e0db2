"""Drafts of a small tree: what is inferred, what the emulator admits, what stays open and says so."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from kcurate.core import own_files, store, time_limits, worker_pool
from kcurate.draft.settings import DraftConfig
from kcurate.draft.stage import draft
from kcurate.extract.settings import ExtractConfig
from kcurate.extract.stage import run as extract
from kcurate.records import Init, Launch, Upload
from tests.draft.conftest import Drafted
from tests.draft.sources import write_tree


def launch(drafted: Drafted, kernel: str) -> Launch:
    side = drafted.known(kernel).sides[""]
    (found,) = (step for step in side.plan if isinstance(step, Launch))
    return found


def test_every_kernel_ends_with_one_outcome(drafted: Drafted) -> None:
    assert drafted.summary.items["kernels"] == {"admitted": 5, "open": 3, "refused": 1}
    assert sum(drafted.summary.items["open"].values()) == 3
    assert len(drafted.lines) == 9


def test_plain_kernel_is_admitted_at_odd_sizes(drafted: Drafted) -> None:
    known = drafted.known("saxpy")
    assert [buffer.role for buffer in known.problem.buffers.values()] == ["in", "inout"]
    assert {buffer.shape for buffer in known.problem.buffers.values()} == {("n",)}
    assert known.problem.scalars["a"].value == 2.5
    step = launch(drafted, "saxpy")
    assert (step.grid, step.block) == (("ceil_div(n, 128)",), (128,))
    assert any(sizes["n"] % 2 for sizes in known.problem.sizes.test)
    assert known.problem.sizes.headline == {"n": 1 << 20}


def test_launch_in_a_wrapper_takes_its_callers_allocations(drafted: Drafted) -> None:
    known = drafted.known("row_scale")
    shapes = {name: buffer.shape for name, buffer in known.problem.buffers.items()}
    assert shapes == {"in": ("HEIGHT*WIDTH",), "scale": ("HEIGHT",), "out": ("HEIGHT*WIDTH",)}
    assert known.problem.buffers["out"].role == "out"
    assert launch(drafted, "row_scale").grid == ("ceil_div(WIDTH, 16)", "ceil_div(HEIGHT, 8)")
    assert known.problem.sizes.headline == {"HEIGHT": 1080, "WIDTH": 1920}


def test_float_atomics_are_declared_and_indices_stay_inside(drafted: Drafted) -> None:
    known = drafted.known("weigh")
    assert known.sides[""].nondeterministic == ("sums",)
    assert known.problem.buffers["points"].shape == ("n", 4)
    assert known.problem.buffers["bin"].init == Init("integers", {"low": 0, "high": "buckets"})


def test_kernel_without_guard_gets_only_what_its_grid_covers(drafted: Drafted) -> None:
    known = drafted.known("smooth")
    assert known.problem.buffers["out"].role == "out"
    assert known.problem.buffers["out"].shape == ("64*(count/64)",)
    assert len(known.problem.sizes.test) > 1
    assert any(isinstance(step, Upload) for step in known.sides[""].plan)
    assert "refused before: sizes odd" in drafted.form("smooth")


def test_indices_override_an_allocation_that_is_too_short(drafted: Drafted) -> None:
    assert drafted.known("spread").problem.buffers["out"].shape == ("2*n",)
    assert "# guess, from the kernel's indices" in drafted.form("spread")


def test_pointers_in_structs_and_tables_are_left_open(drafted: Drafted) -> None:
    for kernel, reason in (("through_struct", "struct_argument"), ("through_table", "pointer_to_pointers")):
        assert not (drafted.folder(kernel) / "problem.json").exists()
        assert any(kernel in line and reason in line for line in drafted.lines)
        assert "# ?" in drafted.form(kernel)


def test_guesses_are_marked(drafted: Drafted) -> None:
    for kernel in ("saxpy", "row_scale", "weigh"):
        for line in drafted.form(kernel).splitlines():
            if line.startswith("init ="):
                assert "# guess" in line


def test_workers_and_a_packed_workspace_give_the_same_drafts(drafted: Drafted, tmp_path: Path) -> None:
    tree = write_tree(tmp_path / "tree")
    root, lines = tmp_path / "work", list[str]()
    extract(ExtractConfig((tree,), root, compile=False, pack=True))
    summary = draft(DraftConfig(root, jobs=2), note=lines.append)
    assert summary.counts == drafted.summary.counts
    assert [line.replace(str(root), str(drafted.root)) for line in lines] == list(drafted.lines)
    assert not any((root / "kernels").iterdir())
    folder = [path.relative_to(drafted.root) for path in store.find(drafted.root / "kernels", "*.*")]
    assert [path.relative_to(root) for path in store.find(root / "kernels", "*.*")] == folder
    for path in folder:  # what is wrong with a refused draft has addresses and random values
        of_both = (own_files.read(each / path) for each in (root, drafted.root))
        written, expected = (re.sub(rb"# refused before.*", b"", content) for content in of_both)
        assert written == expected


def test_a_kernel_that_takes_too_long_costs_itself(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    extract(ExtractConfig((write_tree(tmp_path / "tree"),), tmp_path / "work", compile=False))
    monkeypatch.setattr(time_limits, "DRAFT_CPU_S", 0.0)
    # With compiled code at hand a draft takes less than the pool waits between two looks.
    monkeypatch.setattr(worker_pool, "LOOK_S", 0.01)
    summary = draft(DraftConfig(tmp_path / "work", jobs=2))
    assert summary.counts["refused"]["timeout"] > 0
    assert sum(summary.counts["kernels"].values()) == 9
