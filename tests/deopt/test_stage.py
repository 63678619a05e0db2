"""Deopt as a stage: starts, outcomes that add up, candidates on disk."""

from __future__ import annotations

import io
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from kcurate.core import store
from kcurate.core.workspace import Workspace
from kcurate.deopt import stage
from kcurate.deopt.rules import RULES
from kcurate.deopt.stage import DeoptConfig, run
from kcurate.errors import InputError
from kcurate.records import Candidate, Kernel, Launch, Origin, Problem, Side, Sizes, Source, Span

CODE = """\
__global__ void matvec(const float *__restrict__ a, const float *x, float *y, int rows, int columns) {
  float sum = 0;
#pragma unroll 4
  for (int k = 0; k < columns; ++k) sum += a[k * rows + threadIdx.x] * x[k];
  y[threadIdx.x] = sum;
}
"""


def extracted(workspace: Workspace, benchmark: str, code: str) -> None:
    """A kernel as extract would have left it, of the suite whose problems ship with the package."""
    folder = workspace.kernels / "demo" / benchmark / benchmark
    kernel = Kernel(
        "0" * 16,
        Source("demo", license="Apache-2.0"),
        benchmark,
        None,
        benchmark,
        Span(f"{benchmark}.cu", 0, 1, 1, 1),
        f"{benchmark}.cu",
        (),
        domain="dense-linear-algebra",
        family="matrix-vector",
    )
    store.write_bytes(folder / "kernel.cu", code.encode())
    store.write_json(folder / "kernel.json", kernel)


def test_every_kernel_and_every_rewrite_has_one_outcome(tmp_path: Path) -> None:
    workspace = Workspace(tmp_path)
    extracted(workspace, "matvec", CODE)
    extracted(workspace, "polynomial", "__global__ void polynomial(float *x) {} // coefficient\n")
    extracted(workspace, "unheard-of", CODE)
    summary = run(DeoptConfig(tmp_path))
    assert summary.items == {
        "kernels": {"deoptimised": 1, "no_rule_applies": 1, "no_problem": 1},
        "rewrites": {"candidate": 5, "not_applicable": 2 * len(RULES) - 3},
    }


def test_candidate_keeps_the_fast_side_and_says_what_was_done(tmp_path: Path) -> None:
    workspace = Workspace(tmp_path)
    extracted(workspace, "matvec", CODE)
    run(DeoptConfig(tmp_path, rules=("unroll",)))
    (folder,) = store.find_candidates(workspace.pairs)
    candidate = store.read_candidate(folder)
    assert folder == workspace.pairs / candidate.id
    assert candidate.id == "demo/matvec/matvec/deopt-unroll"
    assert candidate.fast.code == CODE
    assert candidate.slow.code == CODE.replace("#pragma unroll 4\n", "")
    assert candidate.slow.plan == candidate.fast.plan
    assert candidate.problem is not None
    assert (candidate.origin.kind, candidate.origin.made, candidate.origin.rules) == (
        "rule",
        "slow",
        ("unroll",),
    )
    assert candidate.license == "Apache-2.0"


def test_rules_that_apply_are_also_applied_together(tmp_path: Path) -> None:
    workspace = Workspace(tmp_path)
    extracted(workspace, "matvec", CODE)
    run(DeoptConfig(tmp_path))
    together = store.read_candidate(workspace.pairs / "demo/matvec/matvec/deopt-all")
    assert "__restrict__" not in together.slow.code
    assert "unroll" not in together.slow.code
    assert together.origin.rules == ("contiguous-chunks", "restrict", "unroll")


def test_several_rules_make_a_ladder(tmp_path: Path) -> None:
    workspace = Workspace(tmp_path)
    extracted(workspace, "matvec", CODE.replace("* x[k]", "* __ldg(x + k)"))
    run(DeoptConfig(tmp_path, rules=("restrict", "unroll", "read-only-loads")))
    found = {path.name: store.read_candidate(path) for path in store.find_candidates(workspace.pairs)}
    assert set(found) == {
        "deopt-restrict",
        "deopt-unroll",
        "deopt-read-only-loads",
        "deopt-rung2",
        "deopt-all",
    }
    middle = found["deopt-rung2"]
    assert middle.origin.rules == ("read-only-loads", "restrict")
    assert "__ldg" not in middle.slow.code
    assert "unroll" in middle.slow.code
    assert found["deopt-all"].origin.rules == ("read-only-loads", "restrict", "unroll")
    assert "unroll" not in found["deopt-all"].slow.code


def test_rerunning_changes_no_byte_and_skips_made_pairs(tmp_path: Path) -> None:
    workspace = Workspace(tmp_path)
    extracted(workspace, "matvec", CODE)
    run(DeoptConfig(tmp_path))
    before = {path: path.read_bytes() for path in workspace.pairs.rglob("*.*")}
    run(DeoptConfig(tmp_path))
    assert {path: path.read_bytes() for path in workspace.pairs.rglob("*.*")} == before
    with pytest.raises(InputError, match="no kernel or pair here"):
        run(DeoptConfig(tmp_path, paths=(workspace.pairs,)))


def test_a_pair_can_be_the_start(tmp_path: Path) -> None:
    plan = (Launch("matvec", (1,), (32,), args=("a", "x", "y", "rows", "columns")),)
    problem = Problem(Sizes(({"rows": 5},), {"rows": 100}), {})
    side = Side(CODE, plan)
    pair = Candidate("x/pair", "f", "d", None, Origin("curated"), (), "", problem, side, side)
    store.write_candidate(tmp_path / "given" / "pair", pair)
    store.write_candidate(tmp_path / "given" / "draft", replace(pair, id="x/draft", problem=None))
    summary = run(DeoptConfig(tmp_path / "work", paths=(tmp_path / "given",)))
    assert summary.items["kernels"] == {"deoptimised": 1, "no_problem": 1}
    made = store.read_candidate(tmp_path / "work" / "pairs" / "x" / "pair" / "deopt-unroll")
    assert made.origin.parent == "x/pair"


def given_pairs(folder: Path, count: int) -> None:
    """Pairs with different code; the last two have one id."""
    problem = Problem(Sizes(({"rows": 5},), {"rows": 100}), {})
    for number in range(count):
        side = Side(
            CODE.replace("sum", f"sum{number}"),
            (Launch("matvec", (1,), (32,), args=("a", "x", "y", "rows", "columns")),),
        )
        name = f"x/pair{min(number, count - 2)}"
        pair = Candidate(name, "f", "d", None, Origin("curated"), (), "", problem, side, side)
        store.write_candidate(folder / f"{number:03}", pair)


def files(root: Path) -> dict[str, bytes]:
    """Every file below `root` that is not one of a writer that was killed."""
    found: Iterator[Path] = (path for path in root.rglob("*.*") if not path.name.startswith("."))
    return {str(path.relative_to(root)): path.read_bytes() for path in found}


def test_any_number_of_jobs_writes_the_same(tmp_path: Path) -> None:
    given_pairs(tmp_path / "given", 8)
    one, two = (
        run(DeoptConfig(tmp_path / name, (tmp_path / "given",), jobs=jobs))
        for name, jobs in (("one", 1), ("two", 2))
    )
    assert (
        one.items
        == two.items
        == {
            "kernels": {"deoptimised": 8},
            "rewrites": {"candidate": 24, "not_applicable": 8 * (len(RULES) - 2)},
        }
    )
    assert files(tmp_path / "one" / "pairs") == files(tmp_path / "two" / "pairs")
    assert b"sum7" in files(tmp_path / "two" / "pairs")["x/pair6/deopt-all/slow.cu"]


def test_a_killed_run_leaves_whole_pairs_and_is_finished_by_the_next(tmp_path: Path) -> None:
    given_pairs(tmp_path / "given", 24)
    run(DeoptConfig(tmp_path / "whole", (tmp_path / "given",)))
    command = [sys.executable, "-m", "kcurate", "deopt", str(tmp_path / "given"), "-j", "2"]
    pairs = tmp_path / "cut" / "pairs"
    with subprocess.Popen([*command, "-w", str(tmp_path / "cut")], stderr=subprocess.PIPE) as process:
        while not any(pairs.rglob("pair.json")):
            assert process.poll() is None
            time.sleep(0.001)
        os.kill(process.pid, signal.SIGKILL)
        assert process.stderr is not None
        assert process.stderr.read() == b""  # which ends when the workers have ended
    made = store.find_candidates(pairs)
    assert 0 < len(made) < 23 * 3
    for folder in made:
        store.read_candidate(folder)
    run(DeoptConfig(tmp_path / "cut", (tmp_path / "given",), jobs=2))
    assert files(pairs) == files(tmp_path / "whole" / "pairs")


def die(task: object) -> None:
    os.kill(os.getpid(), signal.SIGSEGV)


def test_a_kernel_that_kills_its_worker_is_counted_and_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    given_pairs(tmp_path / "given", 3)
    monkeypatch.setattr(stage, "_write", die)
    notes: list[str] = []
    summary = run(DeoptConfig(tmp_path / "work", (tmp_path / "given",), jobs=2), note=notes.append)
    assert summary.items == {"kernels": {"failed": 3}, "rewrites": {}}
    assert sorted(notes)[0] == "x/pair0: the rules failed (crashed: the worker was killed by signal 11)"


class Terminal(io.StringIO):
    """A stderr that a person sees."""

    def isatty(self) -> bool:
        return True


def test_progress_is_shown_on_a_terminal_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kcurate.core.progress.DELAY_S", 0.0)
    given_pairs(tmp_path / "given", 3)
    shown = []
    for stderr in (Terminal(), io.StringIO()):
        monkeypatch.setattr(sys, "stderr", stderr)
        run(DeoptConfig(tmp_path / "work", (tmp_path / "given",)))
        shown.append(stderr.getvalue())
    assert "/2 [" in shown[0] and "kernel" in shown[0]
    assert shown[1] == ""


@pytest.mark.parametrize("name", ["../outside", "/tmp/outside", "a/../../b", ""])
def test_an_id_that_leads_outside_the_workspace_is_refused(tmp_path: Path, name: str) -> None:
    side = Side(CODE, (Launch("matvec", (1,), (32,)),))
    pair = Candidate(name, "f", "d", None, Origin("curated"), (), "", Problem(Sizes((), {}), {}), side, side)
    store.write_candidate(tmp_path / "given", pair)
    with pytest.raises(InputError, match="leads outside the workspace"):
        run(DeoptConfig(tmp_path / "work", paths=(tmp_path / "given",)))


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({"rules": ("sorcery",)}, r"unknown rule 'sorcery' \(the rules are tree-to-atomics, "),
        ({"paths": (Path("/nowhere"),)}, "/nowhere: no such file or folder"),
        ({}, "run kcurate extract TREE first"),
    ],
)
def test_unusable_input_is_named(tmp_path: Path, config: dict[str, object], message: str) -> None:
    with pytest.raises(InputError, match=message):
        run(DeoptConfig(tmp_path, **config))  # type: ignore[arg-type]
