"""What an outcome earns: whether each outcome counts as compiled, correct and faster, and the reward schemes.

A scheme sees all completions of one task that were judged together (a group) and returns the terms of each;
their sum is the reward. A completion that the harness failed to judge (`OURS`) gets the mean reward of the
rest of its group as `neutral`, so its advantage is 0. Not covered: outcomes and their cache (`reward.pool`).

| scheme | terms | a copy |
|---|---|---|
| `pairs` | 0.02 to 0.3 for the stage it reached, plus log-speedup relative to the best known speedup | 0 |
| `kernelcompare` | compiles 0.4, correct 0.4, faster 0.2 (the KernelCompare paper) | 0.8, as in the paper |
| `staged-tiers` | -100, -40, -30, -20, -10 by the stage that failed; correct: 100 x share of the best | 0 |
| `continuous` | compiles 0.3, correct 0.3, and 0.2 per doubling of speed | 0.6 |
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from statistics import fmean
from typing import Any

from kcurate.errors import InputError
from kcurate.records import Outcome
from kcurate.reward.answers import Refusal


@dataclass(frozen=True)
class Standing:
    """What an outcome counts as. `tier`: the failure's reward under `staged-tiers`, None if correct."""

    compiles: bool
    correct: bool
    faster: bool
    tier: float | None = None


_FORM = Standing(False, False, False, -100.0)
_RIGHT = Standing(True, True, False)
_WRONG = Standing(True, False, False, -10.0)
# Every outcome that says something about the completion. The tiers are those of Mikasa et al.
# (arXiv:2602.12049): bad format or forbidden library, compile error, timeout, run-time error, wrong results.
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
    Outcome.PADDED: _FORM,
    Outcome.NOT_FASTER: _RIGHT,
    Outcome.AMBIGUOUS_TIMING: _RIGHT,
    Outcome.CORRECT: _RIGHT,
    Outcome.CONFIRMED: Standing(True, True, True),
}
# The `pairs` scheme: thresholds for the speedup (given time / completion time); the least value of the best
# known speedup, and its value if it is unknown.
SLOWER, FASTER = 0.67, 1.02
LEAST_KNOWN, UNKNOWN = 1.5, 8.0
# Larger weights could overflow the reward to infinity.
LARGEST = 1e9
OURS = Outcome.HARNESS_ERROR.value


@dataclass(frozen=True)
class Earned:
    """A completion as a scheme sees it. `speedup`: slow time over fast time, None if none counts.

    `known`: the best speedup known for its task; None: unknown. `task`: the task's id. `code`:
    the completion's device code, empty if it was refused before judging.
    """

    outcome: str
    speedup: float | None = None
    known: float | None = None
    task: str = ""
    code: str = field(default="", repr=False)

    @property
    def standing(self) -> Standing:
        """What the outcome counts as."""
        return STANDINGS[self.outcome]

    @property
    def faster(self) -> bool:
        """Whether it is confirmed faster, with a measured speedup."""
        return self.standing.faster and self.speedup is not None


Terms = dict[str, float]
Scheme = Callable[[Sequence[Earned]], list[Terms]]


def pairs(
    group: Sequence[Earned],
    *,
    readable: float = 0.02,
    compiles: float = 0.1,
    slower: float = 0.15,
    right: float = 0.3,
    most: float = 1.5,
) -> list[Terms]:
    """A term for the stage it reached, plus log-speedup over the best known log-speedup; at most `most`.

    An unreadable reply earns 0. So does a copy, which is less than an honest attempt that does not compile.
    The best known speedup counts as at least `LEAST_KNOWN`, and as `UNKNOWN` if none is known. A correct
    answer below `SLOWER` times the given side's speed earns `slower`; a confirmed speedup counts only above
    `FASTER`.
    """
    terms = []
    for earned in group:
        standing, speed = earned.standing, 0.0
        if earned.outcome in (Refusal.UNREADABLE, Refusal.COPIED):
            reached = 0.0
        elif not standing.correct:
            reached = compiles if standing.compiles else readable
        else:
            reached = slower if earned.speedup is not None and earned.speedup < SLOWER else right
        if earned.faster and earned.speedup and earned.speedup > FASTER:
            speed = math.log(earned.speedup) / math.log(max(LEAST_KNOWN, earned.known or UNKNOWN))
        terms.append({"reached": reached, "speed": max(0.0, min(most - reached, speed))})
    return terms


def kernelcompare(
    group: Sequence[Earned], *, compiles: float = 0.4, correct: float = 0.4, faster: float = 0.2
) -> list[Terms]:
    """Three weights: it compiles, its results are correct, it is faster."""
    return [
        {
            "compiles": compiles * earned.standing.compiles,
            "correct": correct * earned.standing.correct,
            "faster": faster * earned.faster,
        }
        for earned in group
    ]


def staged_tiers(group: Sequence[Earned], *, speed: float = 100.0) -> list[Terms]:
    """A failure earns its tier; a correct completion, slow or not, its speed relative to the group's fastest.

    The fastest earns `speed`, one that is half as fast earns half of that, a copy earns nothing. Speedups
    count only if confirmed; a completion without a time counts as being as fast as the given side.
    """
    paces = [_pace(earned) for earned in group]
    best = max(paces, default=0.0)
    return [
        {"tier": earned.standing.tier or 0.0, "speed": speed * (pace / best) if pace else 0.0}
        for earned, pace in zip(group, paces, strict=True)
    ]


def _pace(earned: Earned) -> float:
    """Speed of a correct completion relative to the given side; 0 for a failure and a copy."""
    if not earned.standing.correct or earned.outcome == Refusal.COPIED:
        return 0.0
    if earned.speedup is None:
        return 1.0
    return earned.speedup if earned.faster else min(1.0, earned.speedup)


def continuous(
    group: Sequence[Earned],
    *,
    compiles: float = 0.3,
    correct: float = 0.3,
    doubling: float = 0.2,
    least: float = -0.2,
    most: float = 1.0,
) -> list[Terms]:
    """Two weights, and `doubling` per doubling of speed, clipped to `least` and `most`.

    A speedup counts only if confirmed, a slowdown whenever it was measured.
    """
    terms = []
    for earned in group:
        speed = 0.0
        if earned.standing.correct and earned.speedup:
            speed = min(most, max(least, doubling * math.log2(earned.speedup)))
        terms.append(
            {
                "compiles": compiles * earned.standing.compiles,
                "correct": correct * earned.standing.correct,
                "speed": speed if earned.faster else min(0.0, speed),
            }
        )
    return terms


SCHEMES: Mapping[str, Callable[..., list[Terms]]] = {
    "pairs": pairs,
    "kernelcompare": kernelcompare,
    "staged-tiers": staged_tiers,
    "continuous": continuous,
}


def make(name: str, values: Mapping[str, Any] | None = None, others: Sequence[str] = ()) -> Scheme:
    """The scheme of that name, with some of its numbers overridden; errors also list the names in `others`.

    Raises:
        InputError: no such scheme, or no such parameter.
    """
    if name not in SCHEMES:
        raise InputError(f"unknown reward {name!r}", hint=f"one of {', '.join([*SCHEMES, *others])}")
    scheme = SCHEMES[name]
    parameters = sorted(set(inspect.signature(scheme).parameters) - {"group"})
    for key, value in (values or {}).items():
        if key not in parameters:
            raise InputError(f"the reward {name} has no {key!r}", hint=f"it has {', '.join(parameters)}")
        number = isinstance(value, int | float) and not isinstance(value, bool)
        if not number or not abs(value) <= LARGEST:
            why = f"the reward's {key} must be a number from {-LARGEST:g} to {LARGEST:g}, not {value!r}"
            raise InputError(why, where=name)
    return partial(scheme, **(values or {}))


def terms_of(scheme: Scheme, group: Sequence[Earned]) -> list[Terms]:
    """The terms of every completion of a group; those that the harness failed to judge get `neutral`."""
    of_judged = iter(scheme([earned for earned in group if earned.outcome != OURS]))
    terms = [None if earned.outcome == OURS else next(of_judged) for earned in group]
    rewards = [sum(parts.values()) for parts in terms if parts is not None]
    neutral = fmean(rewards) if rewards else 0.0
    return [{"neutral": neutral} if parts is None else parts for parts in terms]
