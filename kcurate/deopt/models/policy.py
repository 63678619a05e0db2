"""The next step of a search, given its attempts so far; equal histories give equal steps.

`plain`: write, then repair or improve until an answer is accepted. `climb`, which replaces `plain` for a fast
side: rounds of several answers, each from the best one so far. `sqd` (staged quality-diversity, Mikasa et
al., arXiv:2602.12049): each stage permits a slow side one technique of the ladder less, a fast side one more;
a step goes one stage beyond a correct answer (`deepen`), asks for a better answer at the same stage
(`improve`), or repairs a failed one (`repair`), chosen at random with weights. Example for a slow side with
the ladder tiling, vectors: stage 1 asks for code without tiling, stage 2 for code with neither. Not covered:
the contents of a step (`search`), which techniques code shows and may show (`kcurate.problem.techniques`).
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

from kcurate.deopt.models.targets import Target
from kcurate.deopt.settings import DeoptConfig
from kcurate.problem.techniques import permitted
from kcurate.prompts import Technique
from kcurate.records import Attempt, AttemptOutcome, Outcome, Side

Action = Literal["write", "repair", "deepen", "improve"]
PolicyName = Literal["plain", "sqd", "climb"]
# A round counts as a gain if the best answer becomes faster by this factor.
GAIN = 1.05
# The shares of steps in Mikasa et al.; the share of an impossible action is divided among the others.
SHARES: tuple[tuple[Action, float], ...] = (("deepen", 0.4), ("improve", 0.3), ("repair", 0.3))


@dataclass(frozen=True)
class Tried:
    """An attempt, the side that it wrote (None: no readable answer), and the findings in words.

    `stage`: how many techniques it was asked to apply.
    """

    attempt: Attempt
    side: Side | None
    findings: str
    stage: int = 0

    @property
    def accepted(self) -> bool:
        """Whether it became a candidate."""
        return self.attempt.candidate is not None

    @property
    def ended(self) -> AttemptOutcome | Outcome:
        """The verdict's outcome if it was judged, else the attempt's."""
        judged = self.attempt.outcome is AttemptOutcome.JUDGED and self.attempt.verdict
        return judged.outcome if judged else self.attempt.outcome

    @property
    def right(self) -> bool:
        """Whether its results are correct, whether or not it is faster."""
        verdict = self.attempt.verdict
        return verdict is not None and verdict.outcome.correct

    @property
    def ratio(self) -> float | None:
        """Time of the slow side over time of the fast side, if measured."""
        verdict = self.attempt.verdict
        return verdict.speedup.ratio if verdict and verdict.speedup else None


@dataclass(frozen=True)
class Step:
    """What to ask next. `permitted`: the only techniques that the answer may show (None: any).

    `history`: the attempts that the prompt lists, with what was measured of each.
    """

    action: Action
    technique: Technique | None
    parent: Tried | None = None
    permitted: frozenset[str] | None = None
    stage: int = 0
    history: tuple[Tried, ...] = ()


class Policy(Protocol):
    """Chooses steps for one target. `candidates`: how many answers each step asks for."""

    name: PolicyName
    candidates: int

    def next(self, attempts: Sequence[Tried]) -> Step | None:
        """The next step; None: the search is over."""
        ...


def hopeless(attempts: Sequence[Tried], candidates: int = 1) -> bool:
    """Whether to give up: every answer of the last round was a refusal of the model or a failure of our
    harness."""
    return bool(attempts) and all(_lost(answer.attempt) for answer in attempts[-candidates:])


def _lost(attempt: Attempt) -> bool:
    harness_failed = attempt.verdict is not None and not attempt.verdict.outcome.judged
    return harness_failed or attempt.outcome in (AttemptOutcome.REFUSAL, AttemptOutcome.REJECTED)


class Plain:
    """Up to `rounds` attempts at one goal, each shown the findings on the previous one."""

    name: PolicyName = "plain"
    candidates = 1

    def __init__(self, target: Target, rounds: int) -> None:
        self.target = target
        self.rounds = rounds

    def next(self, attempts: Sequence[Tried]) -> Step | None:
        """The next step; None: accepted, hopeless, or out of rounds."""
        technique = self.target.ladder[0] if self.target.ladder else None
        if not attempts:
            return Step("write", technique)
        last = attempts[-1]
        if last.accepted or hopeless(attempts) or len(attempts) >= self.rounds:
            return None
        return Step("improve" if last.right else "repair", technique, last)


class Climb:
    """Up to `rounds` rounds of `candidates` answers each, all from the best answer of the rounds before.

    It ends after `idle_rounds` consecutive rounds that gain less than `GAIN`. If nothing is timed, no correct
    answer is better than another, so it ends with the first round that has a correct one.
    """

    name: PolicyName = "climb"

    def __init__(self, target: Target, rounds: int, candidates: int, idle_rounds: int) -> None:
        self.target = target
        self.rounds = rounds
        self.candidates = candidates
        self.idle_answers = idle_rounds * candidates

    def next(self, attempts: Sequence[Tried]) -> Step | None:
        """The next step; None: hopeless, out of rounds, or no further gain. `attempts` has whole rounds."""
        technique = self.target.ladder[0] if self.target.ladder else None
        if not attempts:
            return Step("write", technique)
        over = len(attempts) >= self.rounds * self.candidates or hopeless(attempts, self.candidates)
        if over or self._stagnant(attempts):
            return None
        parent = max(attempts, key=_progress)
        return Step("improve" if parent.right else "repair", technique, parent, history=tuple(attempts))

    def _stagnant(self, attempts: Sequence[Tried]) -> bool:
        """Whether the last rounds gained nothing, or gains are unknown because nothing is timed."""
        accepted = [answer for answer in attempts if answer.accepted]
        before = _best(attempts[: -self.idle_answers])
        return any(answer.ratio is None for answer in accepted) or (
            before > 0.0 and _best(attempts) < GAIN * before
        )


def _best(attempts: Sequence[Tried]) -> float:
    """The highest speedup of an accepted answer; 0 without one."""
    return max((answer.ratio or 0.0 for answer in attempts if answer.accepted), default=0.0)


def _progress(answer: Tried) -> tuple[bool, float, int, int]:
    """Sort key: accepted answers by speedup, others by how far the judge got, then the later ones."""
    attempt, verdict = answer.attempt, answer.attempt.verdict
    reached = list(Outcome).index(verdict.outcome) if verdict is not None and verdict.outcome.judged else -1
    return answer.accepted, answer.ratio or 0.0, reached, attempt.round


class Stages:
    """The `sqd` policy: up to `rounds` steps over the stages of a ladder of techniques."""

    name: PolicyName = "sqd"
    candidates = 1

    def __init__(self, target: Target, rounds: int) -> None:
        self.target = target
        self.rounds = rounds
        self._seed = target.key()

    def next(self, attempts: Sequence[Tried]) -> Step | None:
        """The next step; None: hopeless, out of rounds, or no action possible."""
        if hopeless(attempts) or len(attempts) >= self.rounds:
            return None
        if not attempts:
            return self._step("write", None, min(1, len(self.target.ladder)))
        rng = random.Random(f"{self._seed}-{len(attempts)}")
        possible = {action: parents for action, _ in SHARES if (parents := self._parents(action, attempts))}
        shares = [(action, share) for action, share in SHARES if action in possible]
        if not shares:
            return None
        (action,) = rng.choices([a for a, _ in shares], [share for _, share in shares])
        parent = rng.choice(possible[action])
        return self._step(action, parent, parent.stage + (action == "deepen"))

    def _parents(self, action: Action, attempts: Sequence[Tried]) -> list[Tried]:
        """The attempts that a step of this kind can start from."""
        if action == "repair":
            repaired = {answer.attempt.parent for answer in attempts if answer.accepted}
            failed = [answer for answer in attempts if not answer.right and answer.attempt.id not in repaired]
            return failed[-1:]
        accepted = sorted(
            (answer for answer in attempts if answer.accepted), key=lambda answer: answer.ratio or 0.0
        )
        best = {answer.stage: answer for answer in accepted}
        if action == "improve":
            timed = [answer for answer in best.values() if answer.ratio is not None]
            return timed + [answer for answer in attempts if answer.right and not answer.accepted]
        deepest = max(best, default=len(self.target.ladder))
        return [best[deepest]] if deepest < len(self.target.ladder) else []

    def _step(self, action: Action, parent: Tried | None, stage: int) -> Step:
        ladder = self.target.ladder
        covered = (technique.name for technique in ladder[:stage])
        allowed = permitted(self.target.given.code, covered, self.target.made) if ladder else None
        technique = ladder[stage - 1] if ladder else None
        return Step(action, technique, parent, allowed, stage)


def make_policy(config: DeoptConfig, target: Target) -> Policy:
    """The policy of a search for a target; `plain` means `climb` if a fast side is to be written."""
    if config.policy == "sqd":
        return Stages(target, config.rounds)
    if target.made == "fast":
        return Climb(target, config.rounds, config.candidates, config.idle_rounds)
    return Plain(target, config.rounds)
