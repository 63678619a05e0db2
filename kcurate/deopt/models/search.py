"""One search: prompt, answer, gates, judge, and the findings go into the next prompt.

A search hands out its next request and takes the answer, so one loop serves single requests and batches.
It replays what earlier runs saved and continues from there: saved answers are not requested again, saved
verdicts not judged again. Not covered: the choice of the next step (`policy`), who answers (`asking`,
`batches`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol

from kcurate import prompts
from kcurate.core import store
from kcurate.deopt.models import gates, history
from kcurate.deopt.models.attempts import Attempts
from kcurate.deopt.models.gates import Refusal, Variants
from kcurate.deopt.models.policy import Policy, Step, Tried
from kcurate.deopt.models.targets import Target
from kcurate.models.asking import Asking
from kcurate.models.client import Request
from kcurate.problem import shown
from kcurate.problem.answered import side_of
from kcurate.prompts import Example, Technique, Unreadable
from kcurate.prompts.replies import Form
from kcurate.records import (
    Attempt,
    AttemptOutcome,
    Candidate,
    Environment,
    Exchange,
    Outcome,
    Prompt,
    ReplyStatus,
    Side,
    SideName,
    Verdict,
    other_side,
)

JudgeFunction = Callable[[Candidate], Verdict]
ExampleFinder = Callable[[Target, Technique | None], Sequence[Example]]
# The profiler's counters for sides of a correct candidate; empty if none can be read.
CountFunction = Callable[[Candidate, Sequence[SideName]], Mapping[str, Mapping[str, float]]]


class Keep(Protocol):
    """Stores an accepted candidate."""

    def __call__(self, candidate: Candidate, verdict: Verdict, *, again: bool) -> None:
        """Write it; `again`: an earlier run did so, and only missing files are to be written."""
        ...


GOOD = frozenset({Outcome.CONFIRMED, Outcome.CORRECT})
_UNANSWERED = {
    ReplyStatus.REFUSAL: AttemptOutcome.REFUSAL,
    ReplyStatus.TRUNCATED: AttemptOutcome.TRUNCATED,
    ReplyStatus.REJECTED: AttemptOutcome.REJECTED,
}


@dataclass(frozen=True)
class Surroundings:
    """What all searches of a run share. `device`: where `judge` judges; its name enters every attempt's id,
    `slug` the folder names.

    `keep` is called with each accepted candidate and its verdict before its attempt is saved, and with
    `again` set when a later run replays it.
    """

    asking: Asking
    attempts: Attempts
    judge: JudgeFunction
    device: Environment
    slug: str
    examples: ExampleFinder
    keep: Keep
    count: CountFunction


@dataclass
class _Waiting:
    """A step with a pending answer, the search's `number`th."""

    step: Step
    attempt_id: str
    number: int
    request: Request


@dataclass
class Search:
    """A search for one target. Not thread-safe; `variants` are those of its start."""

    target: Target
    policy: Policy
    around: Surroundings
    variants: Variants
    tried: list[Tried] = field(default_factory=list)
    _waiting: list[_Waiting] = field(default_factory=list)

    def pending(self) -> list[Request]:
        """The requests of this round that need answers; none: the search is over."""
        around = self.around
        while not self._waiting:
            step = self.policy.next(self.tried)
            if step is None:
                return []
            first = len(self.tried) + 1
            for number in range(first, first + self.policy.candidates):
                recorded = around.attempts.find(self._attempt_id(number))
                replayed = self._replay(recorded, step, number) if recorded else None
                if replayed is not None:
                    self._add(replayed)
                else:
                    form, examples = around.asking.client.form, around.examples
                    prompt = prompt_for(self.target, step, form, examples, around.device)
                    request = around.asking.request(prompt, sample=number)
                    self._waiting.append(_Waiting(step, self._attempt_id(number), number, request))
        return [waiting.request for waiting in self._waiting]

    def absorb(self, exchange: Exchange) -> Attempt:
        """Take the answer to the first pending request, judge it, and save the outcome."""
        waiting = self._waiting[0]
        attempt, side = self._evaluate(waiting, exchange)
        self.around.attempts.add(attempt)
        self._add(self._tried(attempt, side, waiting.step))
        del self._waiting[0]
        return attempt

    def _add(self, tried: Tried) -> None:
        self.tried.append(tried)
        self.tried.sort(key=lambda attempt: (attempt.attempt.round, attempt.attempt.sample))

    @property
    def accepted(self) -> list[Tried]:
        """The attempts that became candidates."""
        return [attempt for attempt in self.tried if attempt.accepted]

    def _attempt_id(self, number: int) -> str:
        around = self.around
        parts = (self.target.key(), around.asking.client.model, self._policy, around.device.device)
        return store.content_id("attempt", *parts, prompts.FORMAT, str(number))

    @property
    def _policy(self) -> str:
        """The policy's name with the number of answers per round, since another number is another search."""
        several = self.policy.candidates > 1
        return f"{self.policy.name}{self.policy.candidates}" if several else self.policy.name

    def _evaluate(self, waiting: _Waiting, exchange: Exchange) -> tuple[Attempt, Side | None]:
        attempt = self._blank(waiting)
        if exchange.status in _UNANSWERED:
            outcome = _UNANSWERED[exchange.status]
            detail = exchange.detail or exchange.stop_reason or ""
            return replace(attempt, outcome=outcome, detail=detail), None
        side = self._side(exchange)
        if isinstance(side, str):
            return replace(attempt, outcome=AttemptOutcome.MALFORMED, detail=side), None
        candidate, target = self._candidate(waiting.step, waiting.number, side), self.target
        refusal = (
            gates.check_side(side, target, waiting.step.technique, waiting.step.permitted)
            or gates.check_form(candidate)
            or self.variants.refuse(gates.known_of(candidate.id, candidate, side))
        )
        if refusal is not None:
            return _refused(attempt, refusal), side
        verdict = self.around.judge(candidate)
        attempt = replace(attempt, verdict=verdict, outcome=AttemptOutcome.JUDGED)
        if verdict.outcome.correct and self.policy.name == "climb":
            given_side = other_side(target.made)
            counted = any(given_side in attempt.attempt.counters for attempt in self.tried)
            sides = (target.made,) if counted else (given_side, target.made)
            attempt = replace(attempt, counters=self.around.count(candidate, sides))
        if verdict.outcome in GOOD:
            refusal = gates.same_machine_code(verdict, candidate) or self.variants.admit(
                gates.known_of(candidate.id, candidate, side, verdict)
            )
            if refusal is not None:
                return _refused(attempt, refusal), side
            self.around.keep(candidate, verdict, again=False)
            attempt = replace(attempt, candidate=candidate.id)
        return attempt, side

    def _blank(self, waiting: _Waiting) -> Attempt:
        step, target = waiting.step, self.target
        rounds, sample = divmod(waiting.number - 1, self.policy.candidates)
        return Attempt(
            id=waiting.attempt_id,
            start=target.start.id,
            model=self.around.asking.client.model,
            made=target.made,
            policy=self.policy.name,
            technique=step.technique.name if step.technique else None,
            variant=target.variant,
            round=rounds + 1,
            sample=sample + 1,
            action=step.action,
            prompt=waiting.request.key,
            outcome=AttemptOutcome.JUDGED,
            parent=step.parent.attempt.id if step.parent else None,
        )

    def _side(self, exchange: Exchange) -> Side | str:
        answer = prompts.read_reply(exchange.reply, exchange.form, self.target.wants)
        if isinstance(answer, Unreadable):
            return answer.reason
        return side_of(answer, self.target.given, self.target.problem, self.target.wants)

    def _candidate(self, step: Step, number: int, side: Side) -> Candidate:
        target = self.target
        verb = "deopt" if target.made == "slow" else "opt"
        verb = verb if target.wants == target.given.language else f"to-{target.wants}"
        goal = step.technique.name if step.technique else "plain"
        name = f"{verb}-{self.around.slug}-{goal}-{target.variant}"
        if self.policy.name != "plain":
            name += f"-{self._policy}{'-' if self.policy.candidates > 1 else ''}{number}"
        return target.candidate(name, side, self.around.asking.client.model, step.technique)

    def _replay(self, recorded: Attempt, step: Step, number: int) -> Tried | None:
        """An attempt of an earlier run if it is still valid; None: it has to be repeated.

        An attempt that is not final is still valid if later attempts started from it.
        """
        final = recorded.outcome.final and (recorded.verdict is None or recorded.verdict.outcome.final)
        following = number + self.policy.candidates - recorded.sample + 1  # the first of the next round
        if not final and self.around.attempts.find(self._attempt_id(following)) is None:
            return None
        exchange = self.around.asking.transcripts.find(recorded.prompt)
        if exchange is None and recorded.outcome is not AttemptOutcome.REJECTED:
            return None
        side_text = self._side(exchange) if exchange and exchange.status not in _UNANSWERED else ""
        side = None if isinstance(side_text, str) else side_text
        if recorded.candidate is not None and side is not None and recorded.verdict is not None:
            candidate = self._candidate(step, number, side)
            self.variants.add(gates.known_of(candidate.id, candidate, side, recorded.verdict))
            self.around.keep(candidate, recorded.verdict, again=True)
        return self._tried(recorded, side, step)

    def _tried(self, attempt: Attempt, side: Side | None, step: Step) -> Tried:
        findings = prompts.feedback(self.target.made, attempt.outcome, attempt.detail, attempt.verdict)
        return Tried(attempt, side, findings, step.stage)


def _refused(attempt: Attempt, refusal: Refusal) -> Attempt:
    return replace(attempt, outcome=refusal.outcome, detail=refusal.detail)


def prompt_for(
    target: Target, step: Step, form: Form, examples: ExampleFinder, device: Environment | None
) -> Prompt:
    """The prompt for a step. A fast side is asked for on a `device`, if there is one."""
    earlier, parent = None, step.parent
    findings = f"{parent.findings}\n{history.told(step.history)}" if parent is not None else ""
    if parent is not None and parent.side is not None:
        earlier = shown.earlier(parent.side, target.given, findings)
    elif parent is not None:
        earlier = prompts.Earlier("", None, findings)
    gpu = history.gpu_described(device) if device is not None and target.made == "fast" else ""
    return prompts.build(
        target.material(gpu),
        step.technique,
        form,
        examples=examples(target, step.technique),
        action=step.action,
        earlier=earlier,
        permitted=None if step.permitted is None else sorted(step.permitted),
        variant=target.variant,
    )
