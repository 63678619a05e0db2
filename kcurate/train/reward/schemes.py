"""What an outcome earns: one table of what it counts as, and reward schemes over it, by name.

A scheme sees all answers to one task that were judged together (a group) and gives each its terms, whose sum
is the reward. Where we failed and not the answer (`OURS`), no scheme is asked: `neutral` is the mean of the
rest of its group, so that its advantage is nought. Not covered: outcomes and their cache (`reward.pool`).

| scheme | terms |
|---|---|
| `kernelcompare` | compiles 0.4, correct 0.4, faster 0.2 (the KernelCompare paper) |
| `staged-tiers` | -100, -40, -30, -20, -10 by the stage that failed; right: 0 to 10 by the group's best |
| `continuous` | compiles 0.3, correct 0.3, and 0.2 a doubling of speed |
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from statistics import fmean
from typing import Any

from kcurate.errors import InputError
from kcurate.records import Outcome
from kcurate.train.reward.answers import Refusal


@dataclass(frozen=True)
class Standing:
    """What an outcome counts as. `tier`: the staged reward of what went wrong, None for what is right."""

    compiles: bool
    correct: bool
    faster: bool
    tier: float | None = None


_FORM = Standing(False, False, False, -100.0)
_RIGHT = Standing(True, True, False)
_WRONG = Standing(True, False, False, -10.0)
# Every outcome of an answer but `OURS`. The tiers are those of Mikasa et al. (arXiv:2602.12049): form or
# library rules broken, compile error, timeout, run-time error, wrong results.
STANDINGS: Mapping[str, Standing] = {
    Refusal.UNREADABLE: _FORM,
    Refusal.MALFORMED: _FORM,
    Refusal.NOT_PERMITTED: _FORM,
    Refusal.COPIED: _RIGHT,
    Outcome.STATIC_REJECT: _FORM,
    Outcome.COMPILE_ERROR: Standing(False, False, False, -40.0),
    Outcome.TIMEOUT: Standing(True, False, False, -30.0),
    Outcome.LAUNCH_ERROR: Standing(True, False, False, -20.0),
    Outcome.MISMATCH: _WRONG,
    Outcome.NONDETERMINISTIC: _WRONG,
    Outcome.NOT_FASTER: _RIGHT,
    Outcome.AMBIGUOUS_TIMING: _RIGHT,
    Outcome.CORRECT: _RIGHT,
    Outcome.CONFIRMED: Standing(True, True, True),
}
OURS = Outcome.HARNESS_ERROR.value


@dataclass(frozen=True)
class Earned:
    """An answer as a scheme sees it. `speedup`: slow time over fast time, None where none counts."""

    outcome: str
    speedup: float | None = None

    @property
    def standing(self) -> Standing:
        """What the outcome counts as."""
        return STANDINGS[self.outcome]

    @property
    def faster(self) -> bool:
        """Whether it is faster, and by how much is known."""
        return self.standing.faster and self.speedup is not None


Terms = dict[str, float]
Scheme = Callable[[Sequence[Earned]], list[Terms]]


def kernelcompare(
    group: Sequence[Earned], *, compiles: float = 0.4, correct: float = 0.4, faster: float = 0.2
) -> list[Terms]:
    """Three weights: it compiles, its results are right, it is faster."""
    return [
        {
            "compiles": compiles * one.standing.compiles,
            "correct": correct * one.standing.correct,
            "faster": faster * one.faster,
        }
        for one in group
    ]


def staged_tiers(group: Sequence[Earned], *, speed: float = 10.0) -> list[Terms]:
    """The tier of what went wrong; for what is right the log-speedup, over that of the group's fastest.

    So the best answer of a group earns `speed`, one that is right and no faster nothing, and any right answer
    more than any wrong one.
    """
    best = max((math.log(one.speedup) for one in group if one.faster and one.speedup), default=0.0)
    terms = []
    for one in group:
        share = math.log(one.speedup) / best if one.faster and one.speedup and best > 0 else 0.0
        tier = one.standing.tier
        terms.append({"tier": 0.0 if tier is None else tier, "speed": speed * max(0.0, share)})
    return terms


def continuous(
    group: Sequence[Earned],
    *,
    compiles: float = 0.3,
    correct: float = 0.3,
    doubling: float = 0.2,
    least: float = -0.2,
    most: float = 1.0,
) -> list[Terms]:
    """Two weights, and `doubling` for each doubling of speed between `least` and `most`.

    A gain counts when it was confirmed, a loss whenever it was measured.
    """
    terms = []
    for one in group:
        speed = 0.0
        if one.standing.correct and one.speedup:
            speed = min(most, max(least, doubling * math.log2(one.speedup)))
        terms.append(
            {
                "compiles": compiles * one.standing.compiles,
                "correct": correct * one.standing.correct,
                "speed": speed if one.faster else min(0.0, speed),
            }
        )
    return terms


SCHEMES: Mapping[str, Callable[..., list[Terms]]] = {
    "kernelcompare": kernelcompare,
    "staged-tiers": staged_tiers,
    "continuous": continuous,
}


def make(name: str, values: Mapping[str, Any] | None = None) -> Scheme:
    """The scheme of that name, with some of its numbers set.

    Raises:
        InputError: no such scheme, or it has no such number.
    """
    if name not in SCHEMES:
        raise InputError(f"there is no reward {name!r}", hint=f"one of {', '.join(SCHEMES)}")
    scheme = SCHEMES[name]
    known = {key for key, one in inspect.signature(scheme).parameters.items() if one.kind is one.KEYWORD_ONLY}
    for key, value in (values or {}).items():
        if key not in known:
            raise InputError(f"the reward {name} has no {key!r}", hint=f"it has {', '.join(sorted(known))}")
        if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
            raise InputError(f"the reward's {key} must be a number, not {value!r}", where=name)
    return partial(scheme, **(values or {}))


def terms_of(scheme: Scheme, group: Sequence[Earned]) -> list[Terms]:
    """The terms of every answer of a group; for those where we failed a `neutral` one."""
    asked = [one for one in group if one.outcome != OURS]
    given = iter(scheme(asked))
    terms = [None if one.outcome == OURS else next(given) for one in group]
    rewards = [sum(one.values()) for one in terms if one is not None]
    neutral = fmean(rewards) if rewards else 0.0
    return [{"neutral": neutral} if one is None else one for one in terms]
