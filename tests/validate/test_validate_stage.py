"""`validate` as a stage: every candidate ends with one verdict, on file, and none is made twice."""

from __future__ import annotations

import json
import shutil
import threading
from dataclasses import replace
from pathlib import Path

import pytest
import small
import torch_modules

from kcurate.core import store
from kcurate.errors import InputError
from kcurate.records import Origin, Summary, Verdict
from kcurate.validate.stage import ValidateConfig, run
from kcurate.verdicts import ledger


def written(folder: Path) -> Path:
    store.write_candidate(folder / "scale", small.scaled())
    store.write_candidate(folder / "wrong", small.wrong()["wrong_everywhere"][0])
    store.write_candidate(folder / "open", replace(small.scaled("open"), problem=None))
    (folder / "broken").mkdir()
    (folder / "broken" / "pair.json").write_text("{")
    return folder


@pytest.fixture
def given(tmp_path: Path) -> Path:
    return written(tmp_path / "pairs")


@pytest.fixture(scope="module")
def once(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with pairs, and a workspace where they were validated."""
    root = tmp_path_factory.mktemp("once")
    summary = run(config(root, written(root / "pairs")))
    assert isinstance(summary, Summary)
    assert summary.items == {"candidates": COUNTS}
    return root


@pytest.fixture
def validated(once: Path, tmp_path: Path) -> Path:
    """The pairs of a copy of it, to be changed."""
    shutil.copytree(once, tmp_path, dirs_exist_ok=True)
    return tmp_path / "pairs"


def config(tmp_path: Path, given: Path, **more: object) -> ValidateConfig:
    return ValidateConfig(tmp_path / "work", (given,), backend="emulator", jobs=1, **more)  # type: ignore[arg-type]


def lines(tmp_path: Path) -> list[dict[str, object]]:
    (path,) = (tmp_path / "work" / "verdicts").glob("*.jsonl")
    return [json.loads(line) for line in path.read_text().splitlines()]


COUNTS = {"no_problem": 1, "correct": 1, "mismatch": 1, "malformed": 1}


def test_every_candidate_ends_with_one_verdict_and_counts_add_up(once: Path) -> None:
    assert sorted(str(line["outcome"]) for line in lines(once)) == sorted(
        ["correct", "mismatch", "malformed", "no_problem"]
    )
    assert not list((once / "pairs").rglob("verdicts"))  # only a GPU's verdict lies beside a pair


def test_what_test_sizes_leave_untested_is_said_of_a_correct_pair(tmp_path: Path) -> None:
    pair = small.scaled()
    assert pair.problem is not None
    for name, test in (("weak", ({"n": 64}, {"n": 128})), ("strong", ({"n": 64}, {"n": 5001}))):
        sizes = replace(pair.problem.sizes, test=test)
        made = replace(pair, id=f"a/{name}", problem=replace(pair.problem, sizes=sizes))
        store.write_candidate(tmp_path / "pairs" / name, made)
    notes: list[str] = []
    run(config(tmp_path, tmp_path / "pairs"), note=notes.append)
    (said,) = (note for note in notes if "at every test size" in note)
    assert said.startswith("a/weak: ") and ": add the test size n=" in said


def test_a_second_run_makes_no_verdict_again_unless_asked(
    tmp_path: Path, once: Path, validated: Path
) -> None:
    before = lines(once)
    assert run(config(once, once / "pairs")).items == {"candidates": COUNTS}
    assert lines(once) == before
    assert run(config(tmp_path, validated, again=True)).items == {"candidates": COUNTS}
    assert [line["outcome"] for line in lines(tmp_path)].count("correct") == 2


@pytest.mark.slow
def test_slow_sides_that_were_made_come_last(tmp_path: Path) -> None:
    """Verdicts on naive variants limit what they may claim, so those must be there first."""
    made = Origin("model", made="slow", model="test")
    for name, origin in (("a", made), ("b", Origin("natural")), ("c", made), ("d", Origin("curated"))):
        store.write_candidate(tmp_path / "pairs" / name, replace(small.scaled(name), origin=origin))
    run(config(tmp_path, tmp_path / "pairs"))
    assert [str(line["candidate"])[-1] for line in lines(tmp_path)] == ["b", "d", "a", "c"]


def test_a_changed_candidate_is_judged_again(tmp_path: Path, validated: Path) -> None:
    store.write_candidate(validated / "wrong", small.scaled("mended"))
    assert run(config(tmp_path, validated)).items == {
        "candidates": {"no_problem": 1, "correct": 2, "malformed": 1}
    }


@pytest.mark.slow
def test_verdicts_that_are_not_final_are_made_again(tmp_path: Path, validated: Path) -> None:
    (path,) = (tmp_path / "work" / "verdicts").glob("*.jsonl")
    known = {"correct": "harness_error"}
    kept = [{**line, "outcome": known.get(str(line["outcome"]), line["outcome"])} for line in lines(tmp_path)]
    path.write_text("".join(json.dumps(line) + "\n" for line in kept))
    assert run(config(tmp_path, validated)).items == {"candidates": COUNTS}
    assert [str(line["outcome"]) for line in lines(tmp_path)].count("correct") == 1


@pytest.mark.slow
def test_a_fault_after_a_verdict_ends_the_judges_too(
    tmp_path: Path, given: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def add(_: ledger.Ledger, verdict: Verdict, *, beside: Path | None = None) -> None:
        if beside is not None:
            raise ZeroDivisionError(verdict.outcome)

    monkeypatch.setattr(ledger.Ledger, "add", add)
    with pytest.raises(ZeroDivisionError) as kept:  # it holds the frames, and so what they left open
        run(replace(config(tmp_path, given), jobs=2))
    assert not [one for one in threading.enumerate() if one.name.startswith("referee-")], kept


def test_nothing_to_validate_is_said(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no pairs in the workspace"):
        run(ValidateConfig(tmp_path, backend="emulator"))
    (tmp_path / "empty").mkdir()
    with pytest.raises(InputError, match=r"no pair\.json"):
        run(ValidateConfig(tmp_path, (tmp_path / "empty",), backend="emulator"))


TRUSTED = pytest.param("correct", True, marks=pytest.mark.slow)


@pytest.mark.parametrize(("outcome", "trusted"), [("harness_error", False), TRUSTED])
def test_a_reference_in_python_runs_only_when_it_is_trusted(
    tmp_path: Path, outcome: str, *, trusted: bool
) -> None:
    folder = tmp_path / "torch"
    store.write_candidate(folder / "scaled", torch_modules.scaled_candidate())
    summary = run(config(tmp_path, folder, trust_python=trusted))
    assert summary.items == {"candidates": {outcome: 1}}
