"""Searches for a fast side: rounds of several answers from the best one, with what was measured."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from deopt.models import server, workbench
from deopt.models.server import serving
from deopt.models.test_batches import BatchServer, succeeded
from deopt.models.workbench import FAST, NO_UNROLL, seams, verdict

from kcurate import cli
from kcurate.core import store
from kcurate.deopt.models.preview import preview
from kcurate.deopt.models.run import Seams, run
from kcurate.records import (
    Attempt,
    Candidate,
    Environment,
    Outcome,
    Resources,
    Verdict,
)

TESTS = Path(__file__).parents[2]
GPU = Environment(
    "cuda",
    "NVIDIA H200",
    details={
        "compute_capability": "9.0",
        "multiprocessors": 132,
        "shared_bytes_per_multiprocessor": 233472,
        "shared_bytes_per_block": 232448,
        "l2_bytes": 62914560,
    },
)
# What the answers multiply by, and how fast each then is.
RATIOS = {"2.0f": 1.5, "2.00f": 1.2, "2.000f": 1.51, "2e0f": 2.0, "2.e0f": 2.05}


def answer(factor: str, name: str) -> dict[str, Any]:
    """A right answer that is like no other of another name."""
    return {"code": FAST.replace("2.0f", factor).replace("\n  int i", f"\n  int {name} = 0;\n  int i")}


@pytest.fixture(autouse=True)
def key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", "k-test")


def judged(candidate: Candidate) -> Verdict:
    """Right and as fast as `RATIOS` says, or a mismatch; with what an H200 measures."""
    found = next((ratio for factor, ratio in RATIOS.items() if f"{factor} *" in candidate.fast.code), None)
    if found is None:
        return verdict(candidate, Outcome.MISMATCH, side="fast", detail="y[3]: 3.0 where 2.0 is right")
    kernel = Resources("scale", registers=40, shared_bytes=0, local_bytes=16, spill_bytes=8)
    measured = verdict(candidate, Outcome.CONFIRMED, ratio=found)
    assert measured.slow is not None and measured.fast is not None
    return replace(
        measured,
        slow=replace(measured.slow, median_us=600.0, resources=(replace(kernel, registers=20),)),
        fast=replace(measured.fast, median_us=600 / found, resources=(kernel,)),
        environment=replace(GPU, details={**GPU.details, "fast_copy_fraction": found / 10}),
    )


def counted(candidate: Candidate, sides: Sequence[str]) -> Mapping[str, Mapping[str, float]]:
    values = {"slow": 32.0, "fast": 4.0}
    return {side: {"load_sectors": values[side], "time_us": 9.0} for side in sides}


def climb_seams() -> Seams:
    return replace(seams(judged), device=GPU, count=counted)


def task(asked: dict[str, Any]) -> str:
    return server.said(asked)


def attempts(folder: Path) -> list[Attempt]:
    (path,) = (folder / "work" / "attempts").glob("*.jsonl")
    return list(store.read_jsonl(path, Attempt))


def climb(
    folder: Path, monkeypatch: pytest.MonkeyPatch, actions: list[server.Action], **options: Any
) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    workbench.start(folder)
    with serving(*actions) as (url, script):
        monkeypatch.setenv("ANTHROPIC_BASE_URL", url)
        given = {"techniques": (), "direction": "fast", "rounds": 9, **options}
        summary = run(workbench.config(folder, "claude-opus-4-8", **given), seams=climb_seams())
    return dict(summary.items), script.asked


FACTORS = ["3.0f", "2.0f", "2.00f", "2e0f", "2.e0f", "2.0f"]


def answers() -> list[server.Action]:
    return [server.message(tool=answer(one, f"at{number}")) for number, one in enumerate(FACTORS)]


def test_a_search_goes_on_after_the_first_confirmed_answer_and_starts_from_the_best(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    items, asked = climb(tmp_path, monkeypatch, answers())
    assert items["attempts"] == {"mismatch": 1, "confirmed": 4, "near_duplicate": 1}
    assert items["searches"] == {"accepted": 1}
    assert len(asked) == 6  # 2.05 after 2.0 gains less than 5%, and so does the round after it
    first, second, third, fourth, _, _ = map(task, asked)
    assert "What was found" not in first
    answered = [json.dumps(body["messages"][-2]) for body in asked[1:]]  # each answer is in view
    assert "3.0f *" in answered[0] and "y[3]: 3.0 where 2.0 is right" in second
    assert "2.0f *" in answered[1] and "It is right" in third
    # The third answer was right and slower than the second, so the fourth starts from the second again.
    assert "2.0f *" in fourth and "2.00f *" not in fourth
    assert "2e0f *" in answered[3] and "2.e0f *" in answered[4]
    assert [len(body["messages"]) for body in asked] == [1, 3, 5, 7, 9, 11]  # one conversation


def test_the_model_sees_the_gpu_and_what_was_measured_of_every_attempt(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, asked = climb(tmp_path, monkeypatch, answers(), rounds=3)
    contexts = {body["messages"][0]["content"][0]["text"] for body in asked}
    (context,) = contexts
    assert (
        "GPU: NVIDIA H200 (compute capability 9.0, 132 multiprocessors, 228 KiB of shared memory a "
        "multiprocessor, 227 KiB a block at most, 61440 KiB of L2 cache)\n"
    ) in context
    told = task(asked[2]).partition("as measured:\n")[2].partition("\n\n")[0].splitlines()
    assert told == [
        "- given: 600 us; 10% of the copy bandwidth, with every buffer moved once; scale: 20 registers a "
        "thread, 8 bytes spilled, 16 bytes of local memory, 0 bytes of static shared memory; counters: "
        "load_sectors 32 sectors",
        "- round 1: mismatch",
        "- round 2: confirmed; 1.500 times as fast as the given code; 400 us; 15% of the copy bandwidth, "
        "with every buffer moved once; scale: 40 registers a thread, 8 bytes spilled, 16 bytes of local "
        "memory, 0 bytes of static shared memory; counters: load_sectors 4 sectors",
    ]
    # The given side is profiled once.
    assert [sorted(one.counters) for one in attempts(tmp_path)] == [[], ["fast", "slow"], ["fast"]]


def test_several_candidates_of_a_round_are_asked_for_at_once_from_the_same_prompt(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    options = {"candidates": 3, "rounds": 2, "concurrency": 1}
    items, asked = climb(tmp_path, monkeypatch, answers(), **options)
    assert len(asked) == 6 and len({task(body) for body in asked}) == 2
    assert "2.0f *" in json.dumps(asked[3]["messages"][-2])  # the best answer, which all three go on from
    assert "- round 1, answer 3: confirmed; 1.200" in task(asked[3])
    found = attempts(tmp_path)
    assert [(one.round, one.sample) for one in found] == [(1, 1), (1, 2), (1, 3), (2, 1), (2, 2), (2, 3)]
    assert {one.parent for one in found} == {None, found[1].id}
    names = {path.name for path in store.find_candidates(tmp_path / "work" / "pairs")}
    assert names == {f"opt-claude-opus-4-8-plain-1-climb3-{number}" for number in (2, 3, 4, 5)}
    again, asked = climb(tmp_path, monkeypatch, [server.status(500)], **options)
    assert (again["attempts"], again["requests"], asked) == (items["attempts"], {}, [])


def test_candidates_of_a_round_share_a_batch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    workbench.start(tmp_path)

    def result(batch: int, index: int, _: dict[str, Any]) -> dict[str, Any]:
        number = 3 * batch + index
        made = succeeded({"messages": [{"content": [{}, {"text": "loop-unrolling"}]}]})
        made["message"]["content"][1]["input"] = answer(FACTORS[number], f"at{number}")
        return made

    with serving(BatchServer(result)) as (url, _):
        monkeypatch.setenv("ANTHROPIC_BASE_URL", url)
        options: dict[str, Any] = {"techniques": (), "direction": "fast", "candidates": 3, "rounds": 2}
        config = workbench.config(tmp_path, "claude-opus-4-8", batch=True, **options)
        summary = run(config, seams=climb_seams())
    assert summary.items["requests"] == {"batched": 6}
    assert [one.place for one in attempts(tmp_path)][2:4] == ["round 1, answer 3", "round 2"]


KILLED = """
import os, signal, sys
from pathlib import Path
from dataclasses import replace
from deopt.models import test_climb, workbench
from kcurate.deopt.models.run import run

count = 0
def judge(candidate):
    global count
    count += 1
    if count == int(sys.argv[2]):
        os.kill(os.getpid(), signal.SIGKILL)
    return test_climb.judged(candidate)

options = {"techniques": (), "direction": "fast", "candidates": 2, "rounds": 3, "concurrency": 1}
config = workbench.config(Path(sys.argv[1]), "claude-opus-4-8", **options)
run(config, seams=replace(test_climb.climb_seams(), judge=judge))
"""


@pytest.mark.slow
def test_a_climb_killed_in_a_round_goes_on_without_a_repeated_request(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    workbench.start(tmp_path)
    options: dict[str, Any] = {"techniques": (), "direction": "fast", "candidates": 2, "rounds": 3}
    config = workbench.config(tmp_path, "claude-opus-4-8", concurrency=1, **options)
    with serving(*answers()) as (url, script):
        monkeypatch.setenv("ANTHROPIC_BASE_URL", url)
        monkeypatch.setenv("PYTHONPATH", f"{TESTS}:{TESTS.parent}")
        ends = [
            subprocess.run(
                [sys.executable, "-c", KILLED, str(tmp_path), str(at)],
                check=False, capture_output=True, timeout=60,
            ).returncode
            for at in (2, 3)
        ]  # fmt: skip
        summary = run(config, seams=climb_seams())
    assert ends == [-9, -9]
    # Answers of one round have one prompt, so that equal requests are told apart by their number alone.
    assert sorted(Counter(json.dumps(body, sort_keys=True) for body in script.asked).values()) == [2, 2, 2]
    assert summary.items["attempts"] == {"mismatch": 1, "confirmed": 4, "near_duplicate": 1}


def test_options_of_a_climb_do_not_fit_other_searches(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    workbench.start(tmp_path)
    for more in (["--candidates", "2"], ["--direction", "fast", "--policy", "sqd", "--idle-rounds", "1"]):
        args = ["deopt", str(tmp_path / "given"), "-w", str(tmp_path / "work"), "--model", "claude", *more]
        assert cli.run(args) == 2
        assert "are for searches that go on from the best answer (give --direction" in capsys.readouterr().err


def test_a_preview_counts_every_candidate(tmp_path: Path) -> None:
    workbench.start(tmp_path)
    options: dict[str, Any] = {"techniques": (), "direction": "fast"}
    costs = [
        one.most_usd
        for number in (1, 4)
        for one in preview(workbench.config(tmp_path, "claude-opus-4-8", candidates=number, **options))
    ]
    assert costs[0] is not None and costs[1] == pytest.approx(4 * costs[0])


@pytest.mark.slow
def test_the_emulator_ends_a_climb_with_the_first_right_answer(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    workbench.start(tmp_path, slow=NO_UNROLL)
    wrong, right = (FAST.replace("2.0f", factor) for factor in ("3.0f", "(1.0f + 1.0f)"))
    with serving(*(server.message(tool={"code": code}) for code in (wrong, right))) as (url, script):
        monkeypatch.setenv("ANTHROPIC_BASE_URL", url)
        args = ["--model", "claude-opus-4-8", "--direction", "fast", "--backend", "emulator", "--rounds", "5"]
        code = cli.run(["deopt", str(tmp_path / "given"), "-w", str(tmp_path / "work"), "--json", *args])
    out, err = capsys.readouterr()
    assert (code, json.loads(out)["items"]["attempts"]) == (0, {"mismatch": 1, "correct": 1}), err
    assert "GPU:" not in script.asked[0]["messages"][0]["content"][0]["text"]
    assert "as measured:\n- round 1: mismatch" in task(script.asked[1])
