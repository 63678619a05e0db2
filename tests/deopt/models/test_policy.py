"""Which step comes next: plain repairs, and stages by weighted chance."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from deopt.models import server, workbench
from deopt.models.server import serving
from deopt.models.workbench import FAST, NO_UNROLL, ScriptedJudge, seams

from kcurate.core import store
from kcurate.deopt.models.policy import Climb, Plain, Stages, Step, Tried
from kcurate.deopt.models.run import run
from kcurate.deopt.models.targets import Target
from kcurate.deopt.starts import Start
from kcurate.problem.techniques import vocabulary
from kcurate.records import Attempt, AttemptOutcome, Environment, Origin, Outcome, Speedup, Verdict

LADDER = ("loop-unrolling", "read-only-cache", "vectorized-access")


def target(variant: int = 1, made: Any = "slow") -> Target:
    side = workbench.side()
    start = Start("own/scale", side, workbench.problem(), "scale", "d", None, Origin("model"))
    ladder = tuple(vocabulary()[name] for name in LADDER)
    return Target(start, side, workbench.problem(), made, ladder, variant)


def tried(
    step: Step, number: int, outcome: Outcome | AttemptOutcome = Outcome.CONFIRMED, ratio: float | None = 1.5
) -> Tried:
    """What became of a step."""
    verdict = None
    if isinstance(outcome, Outcome):
        speedup = Speedup(ratio, ratio, ratio, 0.98, 20, 0.02) if ratio else None
        verdict = Verdict("c", "k", outcome, Environment("cuda", "GPU"), speedup=speedup)
    good = outcome in (Outcome.CONFIRMED, Outcome.CORRECT)
    attempt = Attempt(
        f"a{number}", "own/scale", "m", "slow", "sqd", None, 1, number, step.action, "p",
        AttemptOutcome.JUDGED if verdict else AttemptOutcome(outcome), verdict=verdict,
        parent=step.parent.attempt.id if step.parent else None, candidate=f"c{number}" if good else None,
    )  # fmt: skip
    return Tried(attempt, workbench.side(NO_UNROLL), "found", step.stage)


def play(policy: Any, outcomes: Sequence[Outcome | AttemptOutcome]) -> list[Step]:
    """The steps of a search whose attempts end as given."""
    history: list[Tried] = []
    steps: list[Step] = []
    for outcome in outcomes:
        step = policy.next(history)
        if step is None:
            break
        steps.append(step)
        history.append(tried(step, len(history) + 1, outcome))
    return steps


def test_plain_repairs_what_failed_and_improves_what_is_right() -> None:
    steps = play(
        Plain(target(), 9), [Outcome.MISMATCH, Outcome.NOT_FASTER, Outcome.CONFIRMED, Outcome.CONFIRMED]
    )
    assert [step.action for step in steps] == ["write", "repair", "improve"]
    assert [step.parent.attempt.round if step.parent else None for step in steps] == [None, 1, 2]
    assert {step.technique.name for step in steps if step.technique} == {"loop-unrolling"}


def climb(ratios: Sequence[float | None], rounds: int = 9, candidates: int = 1, idle: int = 2) -> list[Step]:
    """The steps of a climb whose attempts have these speedups; 0: a mismatch, None: right, without a time."""
    policy = Climb(target(made="fast"), rounds, candidates, idle)
    history: list[Tried] = []
    steps: list[Step] = []
    while len(history) < len(ratios) and (step := policy.next(history)) is not None:
        steps.append(step)
        for ratio in ratios[len(history) : len(history) + candidates]:
            outcome = Outcome.CORRECT if ratio is None else Outcome.CONFIRMED if ratio else Outcome.MISMATCH
            history.append(tried(step, len(history) + 1, outcome, ratio))
    return steps


def starting_points(steps: Sequence[Step]) -> list[int | None]:
    return [step.parent.attempt.round if step.parent else None for step in steps]


def test_a_climb_goes_on_from_the_best_answer_until_it_gains_little() -> None:
    steps = climb([0, 1.5, 1.2, 2.0, 2.09, 0, 9.0])
    assert [step.action for step in steps] == ["write", "repair", "improve", "improve", "improve", "improve"]
    # 2.0 to 2.09 is less than 5%, and the round after it gains nothing: two rounds without a gain.
    assert starting_points(steps) == [None, 1, 2, 2, 4, 5]
    assert [len(step.history) for step in steps] == [0, 1, 2, 3, 4, 5]
    assert len(climb([1.5, 1.5, 1.5], idle=1)) == 2
    assert len(climb([1.5 + at for at in range(9)], rounds=4)) == 4


def test_each_step_of_a_climb_is_for_as_many_answers_as_asked_for() -> None:
    steps = climb([0, 0, 1.5, 1.6, 0, 1.4, 0, 0, 9.0, 9.0], candidates=2)
    assert starting_points(steps) == [None, 2, 4, 4]
    assert [step.action for step in steps] == ["write", "repair", "improve", "improve"]


def test_without_times_a_climb_ends_with_the_first_right_answer() -> None:
    assert len(climb([0, None, None])) == 2


def test_one_refusal_of_several_does_not_end_a_climb() -> None:
    policy = Climb(target(made="fast"), 9, 2, 2)
    first = policy.next(())
    assert first is not None
    refused, wrong = tried(first, 1, AttemptOutcome.REFUSAL), tried(first, 2, Outcome.MISMATCH)
    assert policy.next([wrong, refused]) is not None
    assert policy.next([refused, refused]) is None


@pytest.mark.parametrize("end", [AttemptOutcome.REFUSAL, AttemptOutcome.REJECTED, Outcome.HARNESS_ERROR])
@pytest.mark.parametrize("policy", [Plain, Stages])
def test_hopeless_searches_end(policy: Any, end: Outcome | AttemptOutcome) -> None:
    assert len(play(policy(target(), 9), [end, end])) == 1


@pytest.mark.parametrize("policy", [Plain, Stages])
def test_rounds_are_kept(policy: Any) -> None:
    assert len(play(policy(target(), 4), [Outcome.MISMATCH] * 9)) == 4


def test_stages_permit_one_technique_less_each() -> None:
    policy = Stages(target(), 99)
    first = policy.next(())
    assert first is not None
    assert first.permitted == {"read-only-cache"}  # of what the code shows, loop-unrolling is to go
    deepened = next(step for step in play(policy, [Outcome.CONFIRMED] * 50) if step.action == "deepen")
    assert deepened.stage == 2
    assert deepened.technique is not None
    assert deepened.technique.name == "read-only-cache"
    assert deepened.permitted == frozenset()
    upwards = Stages(target(made="fast"), 9).next(())
    assert upwards is not None
    assert upwards.permitted == {"loop-unrolling", "read-only-cache"}


def test_shares_of_steps_are_40_30_30_where_all_are_possible() -> None:
    counts: Counter[str] = Counter()
    for variant in range(1, 1201):
        policy = Stages(target(variant), 99)
        first = policy.next(())
        assert first is not None
        history = [tried(first, 1), tried(replace(first, parent=None), 2, Outcome.MISMATCH)]
        step = policy.next(history)
        assert step is not None
        counts[step.action] += 1
    shares = {action: count / 1200 for action, count in counts.items()}
    # Three standard deviations of 1200 draws are 0.042.
    assert shares == pytest.approx({"deepen": 0.4, "improve": 0.3, "repair": 0.3}, abs=0.045)


def test_impossible_actions_leave_their_share_to_the_others() -> None:
    policy = Stages(target(), 99)
    assert [step.action for step in play(policy, [Outcome.MISMATCH] * 5)] == ["write"] + ["repair"] * 4
    # Without times nothing can be improved on; once the ladder is done the search is over.
    steps = play(policy, [Outcome.CORRECT] * 9)
    untimed = [replace(tried(step, i + 1, Outcome.CORRECT, None)) for i, step in enumerate(steps[:1])]
    following = policy.next(untimed)
    assert following is not None
    assert following.action == "deepen"
    top = replace(untimed[0], stage=len(LADDER))
    assert policy.next([top]) is None


def test_equal_histories_give_equal_steps_and_variants_differ() -> None:
    def actions(variant: int) -> list[str]:
        mixed = [Outcome.CONFIRMED, Outcome.MISMATCH] * 10
        return [step.action for step in play(Stages(target(variant), 20), mixed)]

    assert actions(1) == actions(1)
    assert len({tuple(actions(variant)) for variant in range(1, 6)}) > 1


def test_a_staged_search_climbs_and_refuses_what_is_not_permitted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", "k-test")
    workbench.start(tmp_path)
    plain = NO_UNROLL.replace("__ldg(x + at)", "x[at]")

    def act(handler: server.Handler, body: dict[str, Any]) -> None:
        task = server.said(body)
        if "may use: none." in task:
            code = plain
        else:
            code = (
                NO_UNROLL if "not permitted" in task else FAST.replace("#pragma unroll 4", "#pragma unroll 2")
            )
        server.message(tool={"code": code})(handler, body)

    with serving(act) as (url, script):
        monkeypatch.setenv("ANTHROPIC_BASE_URL", url)
        options = {"policy": "sqd", "rounds": 8, "techniques": ()}
        config = workbench.config(tmp_path, "claude-opus-4-8", **options)
        summary = run(config, seams=seams(ScriptedJudge()))
    assert summary.items["searches"] == {"accepted": 1}
    assert summary.items["attempts"]["not_permitted"] >= 1
    assert "may use: read-only-cache." in script.asked[0]["messages"][0]["content"][1]["text"]
    found = [store.read_candidate(folder) for folder in store.find_candidates(tmp_path / "work" / "pairs")]
    assert {candidate.slow.code for candidate in found} == {NO_UNROLL, plain}
    assert all("-sqd" in candidate.id for candidate in found)
