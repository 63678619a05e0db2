"""Which verdict stands for a pair: counterexamples, refusals, the emulator beside a GPU."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from dataset.making import H200, pair, verdict, workspace

from kcurate.core import store
from kcurate.dataset.stage import BuildConfig, run
from kcurate.records import Environment, Outcome, Verdict
from kcurate.report.stage import ReportConfig
from kcurate.report.stage import run as report
from kcurate.verdicts import standing

L4 = replace(H200, device="NVIDIA L4")
CPU = Environment("emulator", "CPU")


def on(environment: Environment, *outcomes: str) -> list[Verdict]:
    return [replace(verdict(pair("demo/a"), Outcome(one)), environment=environment) for one in outcomes]


def best(*verdicts: Verdict) -> tuple[str, str]:
    found = standing.best(verdicts)
    assert found is not None
    return found.outcome.value, found.environment.device


@pytest.mark.parametrize("wrong", ["mismatch", "nondeterministic"])
def test_a_counterexample_of_a_gpu_stands_whatever_passed(wrong: str) -> None:
    assert best(*on(H200, "confirmed", wrong)) == (wrong, H200.device)
    assert best(*on(H200, wrong, "confirmed", "confirmed")) == (wrong, H200.device)
    assert best(*on(L4, wrong), *on(H200, "confirmed"), *on(CPU, "correct")) == (wrong, L4.device)


@pytest.mark.parametrize(
    "later", ["harness_error", "ambiguous_timing", "not_faster", "timeout", "malformed", "unsupported"]
)
def test_what_shows_no_wrong_result_refutes_nothing(later: str) -> None:
    assert best(*on(H200, "confirmed", later)) == ("confirmed", H200.device)


@pytest.mark.parametrize("later", ["static_reject", "compile_error", "launch_error"])
def test_a_later_refusal_takes_back_the_passes_of_its_device(later: str) -> None:
    assert best(*on(H200, "confirmed", later)) == (later, H200.device)
    assert best(*on(H200, "confirmed", later, "confirmed")) == ("confirmed", H200.device)
    assert best(*on(H200, "confirmed"), *on(L4, later)) == ("confirmed", H200.device)


def test_an_h200_stands_for_the_others_and_withdraws_for_itself() -> None:
    later = on(L4, "confirmed")
    assert best(*on(H200, "confirmed"), *later) == ("confirmed", "NVIDIA H200")
    assert best(*on(H200, "not_faster"), *later) == ("confirmed", "NVIDIA L4")
    assert best(*on(H200, "confirmed", "compile_error"), *later) == ("confirmed", "NVIDIA L4")
    assert best(*on(H200, "confirmed"), *on(L4, "mismatch")) == ("mismatch", "NVIDIA L4")
    asked = standing.best([*on(H200, "confirmed"), *later, *on(H200, "confirmed")], device=L4.device)
    assert asked is not None and asked.environment.device == "NVIDIA L4"


def test_the_emulator_refutes_only_what_no_gpu_found_correct() -> None:
    for order in (1, -1):
        assert best(*[*on(CPU, "mismatch"), *on(H200, "confirmed")][::order]) == ("confirmed", H200.device)
    assert best(*on(CPU, "correct", "mismatch", "correct")) == ("mismatch", "CPU")
    assert best(*on(H200, "harness_error"), *on(CPU, "mismatch", "correct")) == ("mismatch", "CPU")
    assert best(*on(H200, "mismatch"), *on(CPU, "correct")) == ("mismatch", H200.device)


def test_a_pair_without_verdicts_has_none() -> None:
    assert standing.best(()) is None


def test_build_publishes_no_pair_that_a_gpu_refuted(tmp_path: Path) -> None:
    one = pair("demo/a")
    space = workspace(tmp_path, [(one, Outcome.CONFIRMED)])
    store.append_jsonl(space.verdicts / "device.jsonl", on(H200, "mismatch")[0])
    assert run(BuildConfig(tmp_path)).items == {"pairs": {"refused": 1}}
    assert [path.name for path in space.dataset.rglob("*")] == ["gates.json"]


def test_the_newest_verdict_comes_last_when_it_lies_beside_the_pair_too(tmp_path: Path) -> None:
    one = pair("demo/a")
    space = workspace(tmp_path, [(one, Outcome.CONFIRMED)])
    (newest,) = on(H200, "static_reject")
    store.append_jsonl(space.verdicts / "device.jsonl", newest)
    store.write_verdict(space.pairs / one.id, newest)
    ((_, found),) = standing.judged([space.pairs / one.id], space)
    assert [each.outcome for each in found] == ["confirmed", "static_reject"]


def test_a_renamed_pair_and_a_copy_keep_the_verdicts_on_their_content(tmp_path: Path) -> None:
    one = pair("demo/a")
    space = workspace(tmp_path, [(one, Outcome.CONFIRMED)])
    shutil.rmtree(space.pairs / one.id)
    for name in ("demo/b", "demo/c"):
        store.write_candidate(space.pairs / name, replace(one, id=name))
    assert run(BuildConfig(tmp_path)).items == {"pairs": {"confirmed": 1, "duplicate": 1}}
    assert report(ReportConfig(tmp_path)).items == {"pairs": {"confirmed": 2}}
    found = standing.judged(store.find_candidates(space.pairs), space)
    assert [(made.id, [each.candidate for each in verdicts]) for made, verdicts in found] == [
        ("demo/b", ["demo/b"]),
        ("demo/c", ["demo/c"]),
    ]


def test_a_refutation_of_a_copy_is_one_of_the_pair(tmp_path: Path) -> None:
    one = pair("demo/a")
    space = workspace(tmp_path, [(one, Outcome.CONFIRMED)])
    wrong = replace(on(H200, "mismatch")[0], candidate="elsewhere/copy")
    store.append_jsonl(space.verdicts / "a.jsonl", wrong)
    assert run(BuildConfig(tmp_path)).items == {"pairs": {"refused": 1}}
