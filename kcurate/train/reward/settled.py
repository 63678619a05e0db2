"""What became of one answer: its outcome, the speed that counts, and whether anything was odd about it.

A ratio above `AUDIT_RATIO` counts when a second judgement finds it again; of the two the lower one counts.
Not covered: what the outcome earns (`reward.schemes`), asking the judge (`reward.pool`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from kcurate.judge import reference_side
from kcurate.judge.timing.decision import AUDIT_RATIO
from kcurate.records import Candidate, Outcome, Verdict
from kcurate.train.reward.answers import Readable, Refusal, Refused
from kcurate.train.reward.schemes import OURS, Earned

# Two measurements of one ratio agree within this factor.
AUDIT_SLACK = 1.25


@dataclass(frozen=True)
class Settled:
    """An answer and what was found. `speedup` was measured; that of `earned` counts.

    `cheat`: the static checks refused it, or an audit did not bear out what it showed first.
    """

    earned: Earned
    detail: str = ""
    speedup: float | None = None
    audit: bool = False
    cheat: bool = False
    judge_s: float = 0.0


def asks_for_audit(verdicts: Sequence[Verdict]) -> bool:
    """Whether there is one verdict, and too good a one to be believed alone."""
    return len(verdicts) == 1 and _ratio(verdicts[0]) > AUDIT_RATIO


def settle(read: Readable | Refused, verdicts: Sequence[Verdict] = ()) -> Settled:
    """What became of an answer. `verdicts`: none for a refused one, else the judge's, perhaps an audit's."""
    if isinstance(read, Refused):
        return Settled(Earned(read.outcome.value), read.detail)
    first = verdicts[0]
    judge_s = sum(verdict.wall_s or 0.0 for verdict in verdicts)
    if (why := _ours(first, read.candidate)) is not None:
        return Settled(Earned(OURS), why, judge_s=judge_s)
    measured = first.speedup.ratio if first.speedup else None
    if first.outcome.correct and (read.copied or _same_binary(first)):
        return Settled(Earned(Refusal.COPIED), "the code that was given", measured, judge_s=judge_s)
    if asks_for_audit(verdicts[:1]):
        return _audited(first, verdicts[1] if len(verdicts) > 1 else None, judge_s)
    refused = first.outcome is Outcome.STATIC_REJECT
    earned = Earned(first.outcome.value, measured)
    return Settled(earned, first.detail, measured, cheat=refused, judge_s=judge_s)


def _same_binary(verdict: Verdict) -> bool:
    """Whether the compiler made the very code of the given side of an answer: what was added says nothing."""
    made = [side.binary_sha256 if side else None for side in (verdict.slow, verdict.fast)]
    return made[0] is not None and made[0] == made[1]


def _audited(first: Verdict, second: Verdict | None, judge_s: float) -> Settled:
    """A ratio beyond belief: it counts if the second judgement agrees."""
    measured = _ratio(first)
    outcome, counts, detail = first.outcome, None, f"{measured:.1f} times as fast: not audited"
    told = second is not None and second.outcome is not Outcome.HARNESS_ERROR
    if second is not None and told:
        again = _ratio(second)
        outcome, detail = second.outcome, f"{measured:.1f} times as fast, then {again:.1f}"
        if max(measured, again) <= AUDIT_SLACK * min(measured, again):
            counts = min(measured, again)
    if counts is None and outcome is Outcome.CONFIRMED:
        outcome = Outcome.AMBIGUOUS_TIMING
    earned = Earned(outcome.value, counts)
    return Settled(earned, detail, measured, audit=True, cheat=told and counts is None, judge_s=judge_s)


def _ratio(verdict: Verdict) -> float:
    """The confirmed ratio; 0 where there is none."""
    confirmed = verdict.outcome is Outcome.CONFIRMED and verdict.speedup is not None
    return verdict.speedup.ratio if confirmed and verdict.speedup else 0.0


def _ours(verdict: Verdict, candidate: Candidate) -> str | None:
    """Why a verdict says nothing about the answer; None where it does."""
    if verdict.outcome is Outcome.HARNESS_ERROR:
        return verdict.detail
    if verdict.side == reference_side(candidate):
        return f"the given side: {verdict.detail}"
    if verdict.outcome is Outcome.MALFORMED and "plan" in verdict.checks:  # the problem was refused, later
        return verdict.detail
    return None
