"""One search: prompt, answer, gates, judge, and the findings go into the next prompt.

A search hands out its next request and takes the answer, so one loop serves single requests and batches.
It replays what earlier runs saved and continues from there: saved answers are not requested again, saved
verdicts not judged again. Not covered: the choice of the next step (`policy`), who answers (`asking`,
`batches`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol

from kcurate import prompts, store
from kcurate.deopt.models import gates
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
    Exchange,
    Outcome,
    Prompt,
    ReplyStatus,
    Side,
    Verdict,
)

JudgeFunction = Callable[[Candidate], Verdict]
ExampleFinder = Callable[[Target, Technique | None], Sequence[Example]]


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
    """What all searches of a run share. `judge_name` enters every attempt's id, `slug` the folder names.

    `keep` is called with each accepted candidate and its verdict before its attempt is saved, and with
    `again` set when a later run replays it.
    """

    asking: Asking
    attempts: Attempts
    judge: JudgeFunction
    judge_name: str
    slug: str
    examples: ExampleFinder
    keep: Keep


@dataclass
class _Waiting:
    """The step whose answer is pending."""

    step: Step
    attempt_id: str
    round: int
    request: Request


@dataclass
class Search:
    """A search for one target. Not thread-safe; `variants` are those of its start."""

    target: Target
    policy: Policy
    around: Surroundings
    variants: Variants
    tried: list[Tried] = field(default_factory=list)
    _waiting: _Waiting | None = None

    def pending(self) -> Request | None:
        """The next request that needs an answer; None: the search is over."""
        while self._waiting is None:
            step = self.policy.next(self.tried)
            if step is None:
                return None
            number = len(self.tried) + 1
            recorded = self.around.attempts.find(self._attempt_id(number))
            replayed = self._replay(recorded, step, number) if recorded else None
            if replayed is not None:
                self.tried.append(replayed)
                continue
            prompt = prompt_for(self.target, step, self.around.asking.client.form, self.around.examples)
            request = self.around.asking.request(prompt, sample=number)
            self._waiting = _Waiting(step, self._attempt_id(number), number, request)
        return self._waiting.request

    def absorb(self, exchange: Exchange) -> Attempt:
        """Take the answer to the pending request, judge it, and save the outcome."""
        waiting = self._waiting
        assert waiting is not None, "no request is pending"
        attempt, side = self._evaluate(waiting, exchange)
        self.around.attempts.add(attempt)
        self.tried.append(self._tried(attempt, side, waiting.step))
        self._waiting = None
        return attempt

    @property
    def accepted(self) -> list[Tried]:
        """The attempts that became candidates."""
        return [one for one in self.tried if one.accepted]

    def _attempt_id(self, number: int) -> str:
        around = self.around
        parts = (self.target.key(), around.asking.client.model, self.policy.name, around.judge_name)
        return store.content_id("attempt", *parts, prompts.FORMAT, str(number))

    def _evaluate(self, waiting: _Waiting, exchange: Exchange) -> tuple[Attempt, Side | None]:
        attempt = self._blank(waiting)
        if exchange.status in _UNANSWERED:
            outcome = _UNANSWERED[exchange.status]
            detail = exchange.detail or exchange.stop_reason or ""
            return replace(attempt, outcome=outcome, detail=detail), None
        side = self._side(exchange)
        if isinstance(side, str):
            return replace(attempt, outcome=AttemptOutcome.MALFORMED, detail=side), None
        candidate = self._candidate(waiting.step, waiting.round, side)
        refusal = (
            gates.check_side(side, self.target, waiting.step.technique, waiting.step.permitted)
            or gates.check_form(candidate)
            or self.variants.refuse(gates.known_of(candidate.id, candidate, side))
        )
        if refusal is not None:
            return _refused(attempt, refusal), side
        verdict = self.around.judge(candidate)
        attempt = replace(attempt, verdict=verdict, outcome=AttemptOutcome.JUDGED)
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
        return Attempt(
            id=waiting.attempt_id,
            start=target.start.id,
            model=self.around.asking.client.model,
            made=target.made,
            policy=self.policy.name,
            technique=step.technique.name if step.technique else None,
            variant=target.variant,
            round=waiting.round,
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
            name += f"-{self.policy.name}{number}"
        return target.candidate(name, side, self.around.asking.client.model, step.technique)

    def _replay(self, recorded: Attempt, step: Step, number: int) -> Tried | None:
        """An attempt of an earlier run, if it is still valid; None: it has to be made (again).

        An attempt that is not final is still valid if later ones were built on it.
        """
        final = recorded.outcome.final and (recorded.verdict is None or recorded.verdict.outcome.final)
        if not final and self.around.attempts.find(self._attempt_id(number + 1)) is None:
            return None
        exchange = self.around.asking.transcripts.find(recorded.prompt)
        if exchange is None and recorded.outcome is not AttemptOutcome.REJECTED:
            return None
        found = self._side(exchange) if exchange and exchange.status not in _UNANSWERED else ""
        side = None if isinstance(found, str) else found
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


def prompt_for(target: Target, step: Step, form: Form, examples: ExampleFinder) -> Prompt:
    """The prompt for a step."""
    earlier, parent = None, step.parent
    if parent is not None and parent.side is not None:
        earlier = shown.earlier(parent.side, target.given, parent.findings)
    elif parent is not None:
        earlier = prompts.Earlier("", None, parent.findings)
    return prompts.build(
        target.material(),
        step.technique,
        form,
        examples=examples(target, step.technique),
        action=step.action,
        earlier=earlier,
        permitted=None if step.permitted is None else sorted(step.permitted),
        variant=target.variant,
    )
