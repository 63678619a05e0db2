"""SFT on a model's own right answers: which of them are kept, and a run from end to end."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from small import SCALE, SCALE_STRIDED
from train.asked import COPY, PLAN, WRONG, reply, task

from kcurate import prompts
from kcurate.cli import run
from kcurate.evaluation import completions, taught
from kcurate.evaluation.completions import Completion
from kcurate.reward.task import given_hash
from kcurate.train.run_folder import RunFolder

TASK = task()
OTHER = reply(SCALE.replace("a * x[i]", "x[i] * a"))


def row(text: str, outcome: str, speedup: float | None = None) -> Completion:
    return Completion(
        TASK.id, TASK.family, given_hash(TASK), 0, 1, "", "", text, "text", "answered",
        outcome=outcome, speedup=speedup,
    )  # fmt: skip


def test_confirmed_answers_that_are_no_copies_are_kept_once_and_the_fastest_first() -> None:
    from kcurate.train.rft import answers

    again = "Some words first. " + reply(SCALE.replace("  ", "    "))
    renamed = reply(SCALE_STRIDED.replace("stride", "step"), None)
    rows = [
        row(OTHER, "confirmed", 1.5), row(reply(), "confirmed", 3.0), row(again, "confirmed", 2.0),
        row(WRONG, "mismatch"), row(reply(SCALE.replace("a * x", "a*x")), "not_faster", 0.9),
        row(COPY, "copied"), row(renamed, "confirmed", 1.1), row("no answer", "confirmed", 9.0),
    ]  # fmt: skip
    kept = answers([TASK], rows, timed=True, most=4)
    read = [prompts.read_reply(str(one.answer), "text") for one in kept]
    expected = [prompts.read_reply(text, "text") for text in (reply(), OTHER)]
    assert read == expected
    assert [one.id for one in kept] == [TASK.id] * 2
    assert len(answers([TASK], rows, timed=True, most=1)) == 1
    assert not answers([TASK], rows, timed=False, most=4)
    assert len(answers([TASK], [row(reply(SCALE, PLAN), "correct")], timed=False, most=4)) == 1


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::FutureWarning", "ignore::DeprecationWarning", "ignore::UserWarning")
def test_a_run_samples_judges_and_learns_its_own_right_answers(
    model: Path, pairs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from kcurate.train.rft import SAMPLED

    out = tmp_path / "run"
    sets = (
        "tasks.brief=true", "tasks.untimed=true", "tasks.held_out=0.34", "tasks.rollout=0.5",
        "tasks.split_seed=1", "lora.r=4", "rft.samples=4", "grpo.max_completion_tokens=90",
        "sft.max_steps=1", "sft.batch=1",
    )  # fmt: skip
    words = ["train", "rft", "--model", str(model), "--dataset", str(pairs), "--out", str(out)]
    words += ["--backend", "emulator", "--samples", "2", *(word for one in sets for word in ("--set", one))]
    assert run([*words, "--set", "measure.base=false"]) == 0
    folder = RunFolder(out)
    rows = completions.read(folder.completions(SAMPLED), hint="")
    parts = json.loads(folder.tasks.read_bytes())
    assert {one.task for one in rows} == set(parts["grpo"]) and len(rows) == 8
    assert any(one.outcome == "correct" for one in rows)
    assert folder.done("rft") and not folder.stage("sft").exists()
    known = taught.read(folder.adapter("rft"))
    assert known is not None and len(known.families) == 2
    assert [one["name"] for one in json.loads(folder.measured.read_bytes())["rows"]] == ["SFT+RFT"]
    assert "completions are kept, for tasks of" in capsys.readouterr().err
    assert "own confirmed answers" in folder.card.read_text()
