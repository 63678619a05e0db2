"""What a command prints when it ends: reasons, one JSON object, --fail-on, errors, interrupts."""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import typer

from kcurate import cli
from kcurate.cli import output
from kcurate.cli.app import build
from kcurate.core import resources, store
from kcurate.core.runs import recorded
from kcurate.core.workspace import Workspace
from kcurate.records import Environment, Item, Outcome, Summary, Verdict
from kcurate.verdicts import items


def test_a_stage_ends_with_the_first_ten_that_did_not_pass(
    work: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.run(["build", "-w", work]) == 0
    out = capsys.readouterr().out
    assert "not passed: 13 of 14" in out
    assert out.count("refused\n") == 10
    assert "3 more: " in out
    more = out.rsplit("3 more: ", 1)[1].strip()
    assert len([one for one in json.loads(Path(more).read_bytes())["results"] if not one["passed"]]) == 13


def test_every_item_has_its_reason_its_file_and_what_comes_next(
    work: str, printed: Callable[..., dict[str, Any]]
) -> None:
    found = {one["id"]: one for one in printed("report", "-w", work)["results"]}
    assert found["demo/correct-0"]["passed"]
    assert "next" not in found["demo/correct-0"]
    refused = found["demo/mismatch-1"]
    assert (refused["outcome"], refused["passed"]) == ("mismatch", False)
    assert Path(refused["file"]).is_file()
    assert refused["next"] == f"kcurate show demo/mismatch-1 -w {work}"


@pytest.mark.parametrize(("built_in", "passed"), [(True, True), (False, False)])
def test_a_built_in_pair_that_awaits_a_gpu_is_no_fault_of_the_workspace(
    tmp_path: Path, built_in: bool, passed: bool
) -> None:
    built, space = next(iter(store.find_candidates(resources.pairs_dir()))), Workspace(tmp_path)
    candidate = store.read_candidate(built)
    folder = built if built_in else space.pairs / candidate.id
    made = items.standing("pairs", "not_judged", None, items.Judged(folder, candidate, ()), space)
    assert (made.outcome, made.passed, made.why) == ("not_judged", passed, "not judged yet")


def test_outcomes_take_turns_among_those_shown(capsys: pytest.CaptureFixture[str]) -> None:
    items = [Item("pairs", f"a/{i}", "timeout", False) for i in range(40)]
    items.append(Item("pairs", "a/last", "mismatch", False, "y[3] differs"))
    output.report(Summary("validate", {}, 1.0, None, tuple(items)), as_json=False)
    out = capsys.readouterr().out
    assert "a/last  mismatch\n      y[3] differs\n" in out
    assert "a/8  timeout" in out
    assert "a/9  timeout" not in out


def test_the_old_key_holds_the_counts(work: str, printed: Callable[..., dict[str, Any]]) -> None:
    shown = printed("report", "-w", work)
    assert shown["items"] == shown["counts"] == {"pairs": {"correct": 1, "mismatch": 1, "timeout": 12}}


@pytest.mark.parametrize(
    ("args", "stage", "what"),
    [
        (("show", "nothing-like-it"), "show", "no such pair or kernel"),
        (("validate", "missing"), "validate", "no such pair"),
        (("build", "--near", "x"), "build", "Invalid value"),
        (("problem", "check", "missing.toml"), "problem check", "cannot read"),
    ],
)
def test_errors_are_json_of_the_same_shape(
    args: tuple[str, ...],
    stage: str,
    what: str,
    tmp_path: Path,
    printed: Callable[..., dict[str, Any]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    shown = printed(*args, code=2 if stage == "build" else 1)
    assert shown["stage"] == stage
    assert what in shown["error"]["what"]


def test_json_of_the_program_that_is_recorded_is_its_own(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run(["capture", "--per-kernel", "x", "--", "prog", "--json"]) == 2
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize(("names", "code"), [("mismatch,padded", 1), ("any", 1), ("padded", 0)])
def test_fail_on_decides_the_exit_code(
    names: str, code: int, work: str, printed: Callable[..., dict[str, Any]]
) -> None:
    shown = printed("report", "-w", work, "--fail-on", names, code=code)
    assert len(shown["results"]) == 14
    assert ("error" in shown) is bool(code)


def test_fail_on_refuses_a_name_before_anything_runs(work: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run(["report", "-w", work, "--fail-on", "mismach"]) == 2
    assert "did you mean mismatch?" in " ".join(capsys.readouterr().err.split())
    assert not Path(work, "runs").exists()


def test_what_cannot_be_written_as_json_is_replaced(tmp_path: Path) -> None:
    with recorded("extract", tmp_path) as run:
        run.begin()
        run.item("files", "bad\udcff.cu", "unreadable", "two\nlines \ud800", passed=False)
        summary = run.finish({"files": {"unreadable": 1}})
    assert (summary.results[0].id, summary.results[0].why) == ("bad?.cu", "two lines ?")


def test_an_interrupt_says_what_goes_on(
    work: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("kcurate.report.stage.run", interrupted)
    assert cli.run(["report", "-w", work, "--json"]) == 130
    said = capsys.readouterr()
    assert f"to go on: kcurate report -w {work} --json" in said.err
    assert json.loads(said.out)["error"]["kind"] == "interrupted"


@pytest.mark.parametrize("outcome", list(Outcome))
def test_what_comes_next_is_a_command(outcome: Outcome, tmp_path: Path) -> None:
    root: Any = typer.main.get_command(build())
    verdict = Verdict("own/a", "key", outcome, Environment("emulator", "CPU"), "what is wrong", side="fast")
    for folder in (tmp_path / "pairs" / "own" / "a", tmp_path / "elsewhere" / "a b"):
        made = items.item("candidates", "own/a", verdict, folder, Workspace(tmp_path))
        assert made.passed is (outcome in (Outcome.CONFIRMED, Outcome.CORRECT))
        assert (made.next is None) is made.passed
        if made.next is None:
            continue
        program, name, *words = shlex.split(made.next)
        assert program == "kcurate"
        command = root.commands[name]
        while hasattr(command, "commands"):
            name, *words = words
            command = command.commands[name]
        values = command.make_context(name, words).params
        assert values.get("workspace", tmp_path) == tmp_path
        assert made.why == "fast side: what is wrong"


def test_show_prints_the_log_of_a_verdict(
    work: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    verdict = Verdict(
        "demo/correct-0", "k", Outcome.COMPILE_ERROR, Environment("emulator", "CPU"), log="slow.cu:3: oops"
    )
    store.append_jsonl(Path(work, "verdicts", "device.jsonl"), verdict)
    assert cli.run(["show", "demo/correct-0", "-w", work]) == 0
    assert "== log on CPU\nslow.cu:3: oops" in capsys.readouterr().out
