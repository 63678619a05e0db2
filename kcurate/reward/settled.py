"""The final outcome of one completion, from its verdicts: detects copies, and decides audits.

A speedup above `AUDIT_RATIO` counts only if a second judgement reproduces it; the lower of the two counts.
Not covered: what the outcome earns (`reward.schemes`), calling the judge (`reward.pool`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from kcurate.judge import reference_side
from kcurate.judge.timing.decision import AUDIT_RATIO
from kcurate.records import Candidate, Outcome, Verdict
from kcurate.reward.answers import Readable, Refusal, Refused
from kcurate.reward.schemes import OURS, Earned

# Two measurements of one ratio agree within this factor.
AUDIT_SLACK = 1.25


@dataclass(frozen=True)
class Settled:
    """The final outcome. `speedup` is the measured one; the reward uses `earned.speedup`.

    `headroom`: the given side's time over the time to move the problem's buffers once at copy bandwidth; None
    if not measured. `cheat`: the static checks rejected it, or an audit did not reproduce its speedup.
    """

    earned: Earned
    detail: str = ""
    speedup: float | None = None
    audit: bool = False
    cheat: bool = False
    judge_s: float = 0.0
    headroom: float | None = None


def needs_audit(verdicts: Sequence[Verdict]) -> bool:
    """Whether there is only one verdict, and its speedup must be reproduced."""
    return len(verdicts) == 1 and _ratio(verdicts[0]) > AUDIT_RATIO


def settle(read: Readable | Refused, verdicts: Sequence[Verdict] = ()) -> Settled:
    """The final outcome. `verdicts`: none if refused, else the judge's, then an audit's if there was one."""
    if isinstance(read, Refused):
        return Settled(Earned(read.outcome.value), read.detail)
    first = verdicts[0]
    judge_s = sum(verdict.wall_s or 0.0 for verdict in verdicts)
    if (why := _ours(first, read.candidate)) is not None:
        return Settled(Earned(OURS), why, judge_s=judge_s)
    measured = first.speedup.ratio if first.speedup else None
    if first.outcome.correct and (read.copied or _same_binary(first)):
        return Settled(Earned(Refusal.COPIED), "the given code", measured, judge_s=judge_s)
    if needs_audit(verdicts[:1]):
        return _audited(first, verdicts[1] if len(verdicts) > 1 else None, judge_s)
    refused = first.outcome is Outcome.STATIC_REJECT
    earned = Earned(first.outcome.value, measured)
    return Settled(earned, first.detail, measured, cheat=refused, judge_s=judge_s, headroom=_headroom(first))


def _same_binary(verdict: Verdict) -> bool:
    """Whether both sides compiled to the same machine code, so that the completion changed nothing."""
    binaries = [side.binary_sha256 if side else None for side in (verdict.slow, verdict.fast)]
    return binaries[0] is not None and binaries[0] == binaries[1]


def _audited(first: Verdict, second: Verdict | None, judge_s: float) -> Settled:
    """The outcome of a speedup that needs an audit: it counts if the second judgement agrees."""
    measured = _ratio(first)
    outcome, counts, detail = first.outcome, None, f"{measured:.1f} times as fast: not audited"
    audited = second is not None and second.outcome.judged
    if second is not None and audited:
        again = _ratio(second)
        outcome, detail = second.outcome, f"{measured:.1f} times as fast, then {again:.1f}"
        if max(measured, again) <= AUDIT_SLACK * min(measured, again):
            counts = min(measured, again)
    if counts is None and outcome is Outcome.CONFIRMED:
        outcome = Outcome.AMBIGUOUS_TIMING
    return Settled(
        Earned(outcome.value, counts),
        detail,
        measured,
        audit=True,
        cheat=audited and counts is None,
        judge_s=judge_s,
        headroom=_headroom(first),
    )


def _headroom(verdict: Verdict) -> float | None:
    share = verdict.environment.copy_fraction
    if verdict.speedup is None or share is None or share <= 0:
        return None
    return verdict.speedup.ratio / share


def _ratio(verdict: Verdict) -> float:
    """The confirmed speedup; 0 if there is none."""
    confirmed = verdict.outcome is Outcome.CONFIRMED and verdict.speedup is not None
    return verdict.speedup.ratio if confirmed and verdict.speedup else 0.0


def _ours(verdict: Verdict, candidate: Candidate) -> str | None:
    """Why a verdict is not about the completion; None if it is."""
    if not verdict.outcome.judged:
        return verdict.detail
    if verdict.side == reference_side(candidate):
        return f"the given side: {verdict.detail}"
    if verdict.outcome is Outcome.MALFORMED and "plan" in verdict.checks:  # the problem itself was refused
        return verdict.detail
    return None
