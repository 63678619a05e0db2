"""The pool: real judges on the emulator; audits and our own failures with judges of our own."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from small import SCALE, SCALE_STRIDED
from train.asked import BROKEN, CHEAT, COPY, EMPTY, ENDLESS, PLAN, WRONG, RuleJudge, reply, task, verdict

from kcurate.errors import KcurateError
from kcurate.judge.judging import JudgeConfig
from kcurate.judge.referees.local import Referees
from kcurate.records import Candidate, Outcome, SideReport, Verdict
from kcurate.reward import schemes
from kcurate.reward.pool import PoolConfig, RewardPool

SCHEME = schemes.make("kernelcompare")
TASK = task()
UNTIMED = PoolConfig(backend="emulator")


def pool_of(judges: RuleJudge, scheme: str = "kernelcompare", **config: Any) -> RewardPool:
    return RewardPool(schemes.make(scheme), PoolConfig(**config), executor=judges)


@pytest.fixture(scope="module")
def pool() -> Iterator[RewardPool]:
    referees = Referees(JudgeConfig(backend="emulator", spares=1), jobs=2, limit_s=60)
    with closing(RewardPool(SCHEME, UNTIMED, executor=referees)) as opened:
        yield opened


def test_every_kind_of_answer_earns_its_part(pool: RewardPool) -> None:
    expected = {
        "no kernel here": ("unreadable", 0.0),
        reply(SCALE, [{"jump": 1}]): ("malformed", 0.0),
        reply(SCALE, [{**PLAN[0], "launch": "other"}]): ("malformed", 0.0),
        CHEAT: ("static_reject", 0.0),
        BROKEN: ("compile_error", 0.0),
        EMPTY: ("mismatch", 0.4),
        WRONG: ("mismatch", 0.4),
        COPY: ("copied", 0.8),
        reply(SCALE_STRIDED, PLAN): ("copied", 0.8),
        reply(): ("correct", 0.8),
    }
    judged = pool.score_now([TASK] * len(expected), list(expected))
    found = [(one.outcome, pytest.approx(one.reward)) for one in judged]
    assert found == list(expected.values())
    assert [one.cheat for one in judged].count(True) == 1
    assert all(one.components["faster"] == 0 and one.speedup is None for one in judged)
    assert all(one.reward == pytest.approx(sum(one.components.values())) for one in judged)
    assert not pool.timed


def test_a_copy_of_the_given_launch_costs_no_judge(pool: RewardPool) -> None:
    (copied,) = pool.score_now([TASK], [COPY])
    assert copied.judge_s == 0.0


def test_equal_answers_are_judged_once_in_a_batch_and_after(pool: RewardPool) -> None:
    code = SCALE.replace("a * x[i]", "x[i] * a")
    same = [reply(code), reply("// It is the same.\n" + code.replace("    ", "\t")), f"So:\n{reply(code)}"]
    judged = pool.score_now([TASK] * 3, same)
    assert [one.outcome for one in judged] == ["correct"] * 3
    assert [one.cached for one in judged] == [False, True, True]
    assert judged[0].judge_s > 0 and judged[1].judge_s == 0
    (again,) = asyncio.run(pool.score([TASK], [same[1]]))
    assert again.cached


def test_batches_at_the_same_time_share_what_is_under_way(pool: RewardPool) -> None:
    text = reply(SCALE.replace("a * x[i]", "x[i] * a * 1.0f"))

    async def both() -> list[Any]:
        return await asyncio.gather(pool.score([TASK], [text]), pool.score([TASK], [text]))

    first, second = (one for (one,) in asyncio.run(both()))
    assert first.outcome == second.outcome == "correct"
    assert first.cached != second.cached


@pytest.mark.slow
def test_a_hanging_answer_holds_up_nobody_and_is_not_held_against_the_model() -> None:
    referees = Referees(JudgeConfig(backend="emulator", spares=1), jobs=2)
    with closing(RewardPool(SCHEME, UNTIMED, executor=referees)) as pool:
        pool.score_now([TASK] * 2, [reply(), WRONG])
        referees._limit_s = 1.0
        hung, right, wrong = pool.score_now([TASK] * 3, [ENDLESS, reply(), WRONG])
    assert hung.outcome == "harness_error"
    assert (right.outcome, wrong.outcome) == ("correct", "mismatch")
    assert hung.reward == pytest.approx((right.reward + wrong.reward) / 2)
    assert hung.components == {"neutral": pytest.approx(0.6)}


def test_the_caller_may_stop_waiting(pool: RewardPool) -> None:
    text = reply(SCALE.replace("a * x[i]", "2.0f * a * x[i] * 0.5f"))

    async def impatient() -> None:
        await asyncio.wait_for(pool.score([TASK], [text]), 0.01)

    with pytest.raises(TimeoutError):
        asyncio.run(impatient())
    assert pool.score_now([TASK], [text])[0].outcome == "correct"


def test_a_measured_speed_earns_its_part() -> None:
    judges = RuleJudge(lambda candidate, n: verdict(candidate, ratio=2.0))
    with closing(pool_of(judges)) as pool:
        (judged,) = pool.score_now([TASK], [reply()])
        assert pool.timed
    assert judged.reward == pytest.approx(1.0)
    assert judged.speedup == 2.0
    assert not judged.audit


def test_a_copy_with_another_launch_earns_no_speed() -> None:
    judges = RuleJudge(lambda candidate, n: verdict(candidate, ratio=2.0))
    with closing(pool_of(judges)) as pool:
        (judged,) = pool.score_now([TASK], [reply(SCALE_STRIDED, PLAN)])
    assert len(judges.asked) == 1
    assert (judged.outcome, judged.reward, judged.speedup) == ("copied", pytest.approx(0.8), 2.0)


@pytest.mark.parametrize(
    ("ratios", "outcomes", "reward", "cheat"),
    [
        ((40.0, 38.0), ("confirmed", "confirmed"), 1.0, False),
        ((40.0, 12.0), ("confirmed", "confirmed"), 0.8, True),
        ((40.0, None), ("confirmed", "not_faster"), 0.8, True),
        ((40.0, None), ("confirmed", "mismatch"), 0.4, True),
        ((40.0, None), ("confirmed", "harness_error"), 0.8, False),
    ],
)
def test_a_ratio_beyond_ten_counts_when_it_is_found_again(
    ratios: tuple[float, ...], outcomes: tuple[str, ...], reward: float, cheat: bool
) -> None:
    judges = RuleJudge(lambda candidate, n: verdict(candidate, Outcome(outcomes[n]), ratios[n]))
    with closing(pool_of(judges)) as pool:
        (judged,) = pool.score_now([TASK], [reply()])
    assert len(judges.asked) == 2
    assert judged.audit
    assert judged.cheat == cheat
    assert judged.reward == pytest.approx(reward)
    assert (judged.outcome == "confirmed") == (reward == 1.0), "scores count by outcome"
    assert judged.speedup == 40.0


def test_of_two_ratios_the_lower_one_counts() -> None:
    judges = RuleJudge(lambda candidate, n: verdict(candidate, ratio=(20.0, 16.0)[n]))
    with closing(pool_of(judges, "continuous")) as pool:
        (judged,) = pool.score_now([TASK], [reply()])
    assert judged.components["speed"] == pytest.approx(0.8)


@pytest.mark.parametrize(
    "found",
    [
        {"outcome": Outcome.TIMEOUT, "side": "slow"},
        {"outcome": Outcome.MALFORMED, "checks": ("plan", "verify")},
        {"outcome": Outcome.HARNESS_ERROR},
    ],
)
def test_what_says_nothing_about_the_answer_is_ours(found: dict[str, Any]) -> None:
    judges = RuleJudge(lambda candidate, n: verdict(candidate, **found))
    with closing(pool_of(judges)) as pool:
        judged = pool.score_now([TASK, TASK], [reply(), COPY])
    assert judged[0].outcome == "harness_error"
    assert judged[0].reward == judged[1].reward


def test_a_group_is_what_one_call_has_of_a_task() -> None:
    ratios = iter((4.0, 2.0, 2.0))
    judges = RuleJudge(lambda candidate, n: verdict(candidate, ratio=next(ratios)))
    other = task("other")
    texts = [reply(SCALE + "\n" * n + f"// {n}\n__device__ int f{n};\n") for n in range(3)]
    with closing(pool_of(judges, "staged-tiers")) as pool:
        judged = pool.score_now([TASK, TASK, other], texts)
    assert [one.reward for one in judged] == [pytest.approx(100), pytest.approx(50), pytest.approx(100)]


def test_a_resumed_run_judges_nothing_twice(tmp_path: Path) -> None:
    file = tmp_path / "verdicts.jsonl"
    found = {"quick": 40.0, "plain": 2.0}

    def rule(candidate: Candidate, n: int) -> Verdict:
        kind = next((name for name in found if name in candidate.fast.code), None)
        return verdict(
            candidate, Outcome.CONFIRMED if kind else Outcome.AMBIGUOUS_TIMING, found.get(kind or "")
        )

    texts = [reply(SCALE + f"__device__ int {name};") for name in ("quick", "plain", "unsure")]
    runs = []
    for device in ("Some GPU", "Some GPU", "Another GPU"):
        judges = RuleJudge(rule, device)
        with closing(pool_of(judges, cache_file=file)) as pool:
            runs.append((len(judges.asked), pool.score_now([TASK] * 3, texts), len(judges.asked)))
    assert [asked for _, _, asked in runs] == [4, 1, 4]
    assert [one.cached for one in runs[1][1]] == [True, True, False]
    assert [one.reward for one in runs[0][1]] == [one.reward for one in runs[1][1]]
    assert [one.audit for one in runs[1][1]] == [True, False, False]
    assert b"samples" not in file.read_bytes()


def test_the_memory_has_an_end() -> None:
    judges = RuleJudge(lambda candidate, n: verdict(candidate, ratio=2.0))
    with closing(pool_of(judges, cache_size=1)) as pool:
        for text in (reply(), reply(SCALE + "\n__device__ int f;"), reply()):
            pool.score_now([TASK], [text])
    assert len(judges.asked) == 3


def test_the_launch_and_line_breaks_tell_answers_apart() -> None:
    judges = RuleJudge(lambda candidate, n: verdict(candidate, ratio=2.0))
    launches = [{**PLAN[0], "block": [size]} for size in (64, 128)]
    broken = "#define A\n#define B 2\n", "#define A #define B 2\n"
    texts = [reply(SCALE, [one]) for one in launches] + [reply(one + SCALE) for one in broken]
    with closing(pool_of(judges)) as pool:
        judged = pool.score_now([TASK] * 4, texts)
    assert not any(one.cached for one in judged)


def test_a_machine_that_cannot_judge_says_so() -> None:
    config = PoolConfig(backend="cuda", gpus=(97,), jobs=1)
    with closing(RewardPool(SCHEME, config)) as pool, pytest.raises(KcurateError):
        pool.score_now([TASK], [reply()])


def test_a_judge_that_breaks_tells_all_who_wait() -> None:
    class Broken(RuleJudge):
        def submit(self, candidate: Candidate) -> Future[Verdict]:
            future: Future[Verdict] = Future()
            future.set_exception(KcurateError("no more judges"))
            return future

    with closing(pool_of(Broken(lambda candidate, n: verdict(candidate)))) as pool:
        for _ in range(2):
            with pytest.raises(KcurateError, match="no more judges"):
                asyncio.run(pool.score([TASK, replace(TASK, id="other")], [reply(), reply()]))


def test_what_compiles_to_the_given_code_is_a_copy(pool: RewardPool) -> None:
    at = SCALE_STRIDED.rindex("}")
    edits = [
        SCALE_STRIDED[:at] + more + SCALE_STRIDED[at:] for more in (";", " if (0) {}", " int unused = 3;")
    ]
    judged = pool.score_now([TASK] * 3, [reply(code, None) for code in edits])
    assert {one.outcome for one in judged} == {"copied"}


@pytest.mark.parametrize(("same", "outcome", "reward"), [(True, "copied", 0.8), (False, "confirmed", 1.0)])
def test_the_very_machine_code_earns_no_speed(
    same: bool, outcome: str, reward: float, tmp_path: Path
) -> None:
    def rule(candidate: Candidate, _: int) -> Verdict:
        sides = [SideReport(binary_sha256=text) for text in ("a", "a" if same else "b")]
        return replace(verdict(candidate, ratio=2.0), slow=sides[0], fast=sides[1])

    found = []
    for _ in range(2):  # the second reads the file of the first
        with closing(pool_of(RuleJudge(rule), cache_file=tmp_path / "verdicts.jsonl")) as judges:
            found += judges.score_now([TASK], [reply()])
    assert [(one.outcome, one.reward) for one in found] == [(outcome, pytest.approx(reward))] * 2
    assert [one.cached for one in found] == [False, True]
