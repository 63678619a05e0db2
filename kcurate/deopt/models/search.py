"""One search: a conversation in which the model answers, the judge judges, and the next request has the
findings.

A search returns its next request and takes the exchange, so one loop serves single requests and batches. It
replays what earlier runs saved and continues from there: saved answers are not requested again, saved
verdicts not judged again. Not covered: the choice of the next step (`policy`), a model's tools (`bench`), who
answers (`asking`, `batches`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from kcurate import prompts, roofline
from kcurate.core import store
from kcurate.deopt.models import gates, history
from kcurate.deopt.models.attempts import Attempts
from kcurate.deopt.models.bench import Finding, Workbench
from kcurate.deopt.models.gates import Refusal, Variants
from kcurate.deopt.models.policy import Policy, Step, Tried
from kcurate.deopt.models.targets import Target
from kcurate.models.asking import Asking
from kcurate.models.client import Request
from kcurate.models.conversation import Bench, CannotRun, Conversation, Limits, called, handed_in
from kcurate.problem import shown
from kcurate.problem.answered import side_of
from kcurate.prompts import Example, Technique, Unreadable, tools
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
    Turn,
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
        """Write it; `again`: an earlier run did so, and only missing files are written."""
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
    `again` set when a later run replays it. `limits`: of the tools, for each answer.
    """

    asking: Asking
    attempts: Attempts
    judge: JudgeFunction
    device: Environment
    slug: str
    examples: ExampleFinder
    keep: Keep
    count: CountFunction
    limits: Limits = field(default_factory=Limits)


@dataclass
class _Waiting:
    """A step with a pending answer, the search's `number`th. `found`: the verdicts by candidate."""

    step: Step
    attempt_id: str
    number: int
    talk: Conversation
    found: dict[str, Finding] = field(default_factory=dict)


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
        while not self._waiting:
            step = self.policy.next(self.tried)
            if step is None:
                return []
            first = len(self.tried) + 1
            for number in range(first, first + self.policy.candidates):
                recorded = self.around.attempts.find(self._attempt_id(number))
                replayed = self._replay(recorded, step, number) if recorded else None
                if replayed is not None:
                    self._add(replayed)
                else:
                    self._waiting.append(self._begin(step, number))
        return [waiting.talk.request for waiting in self._waiting]

    def absorb(self, request: Request, exchange: Exchange) -> Attempt | None:
        """Take the exchange for a pending request. The side that it submits is judged and saved; returns None
        if the conversation continues."""
        waiting = next(waiting for waiting in self._waiting if waiting.talk.request.key == request.key)
        if not waiting.talk.absorb(exchange):
            return None
        attempt, side = self._evaluate(waiting, exchange)
        self.around.attempts.add(attempt)
        self._add(self._tried(attempt, side, waiting.step))
        self._waiting.remove(waiting)
        return attempt

    def _begin(self, step: Step, number: int) -> _Waiting:
        """Start a step: in the conversation of the attempts before it, else in a new one."""
        asking, limits = self.around.asking, self.around.limits
        with_tools = asking.client.form == "tool"
        waiting: _Waiting
        bench: Bench = Bench()
        if with_tools:
            bench = Workbench(
                self.target,
                lambda side: self._find(waiting, side),
                lambda side: self._profile(waiting, side),
                with_runs=limits.calls > 0,
            )
        request = self._going_on(step, number, bench)
        if request is None:
            around = self.around
            how = limits if with_tools else None
            prompt = prompt_for(self.target, step, how, around.examples, around.device)
            request = asking.request(prompt, number, bench.tools)
        waiting = _Waiting(
            step, self._attempt_id(number), number, Conversation(asking, request, bench, limits)
        )
        return waiting

    def _going_on(self, step: Step, number: int, bench: Bench) -> Request | None:
        """The request that continues after the last answer, or after the best of a round.

        None if there is no answer to continue from: a model that refused would refuse again with its refusal
        in view.
        """
        before = step.parent if self.policy.candidates > 1 or not self.tried else self.tried[-1]
        if before is None or before.attempt.outcome in (AttemptOutcome.REFUSAL, AttemptOutcome.REJECTED):
            return None
        exchange = self.around.asking.transcripts.find(before.attempt.prompt)
        if exchange is None:
            return None
        call = called(exchange) if exchange.status is not ReplyStatus.TRUNCATED else None
        turn = Turn(turn_for(self.target, step, before), call.id if call else None)
        return self.around.asking.going_on(before.attempt.prompt, turn, number, bench.tools)

    def _find(self, waiting: _Waiting, side: Side) -> Finding:
        """The verdict on a side, or why it is not judged; computed once."""
        candidate, target, step = (
            self._candidate(waiting.step, waiting.number, side),
            self.target,
            waiting.step,
        )
        key = store.side_key(candidate, target.made)
        if key not in waiting.found:
            waiting.found[key] = (
                gates.check_side(side, target, step.technique, step.permitted)
                or gates.check_form(candidate)
                or self.variants.refuse(gates.known_of(candidate.id, candidate, side))
                or self.around.judge(candidate)
            )
        return waiting.found[key]

    def _profile(self, waiting: _Waiting, side: Side) -> Mapping[str, Mapping[str, float]]:
        candidate = self._candidate(waiting.step, waiting.number, side)
        return self.around.count(candidate, (other_side(self.target.made), self.target.made))

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
        before = [earlier for earlier, _ in waiting.talk.request.history]
        side = self._side(exchange, before)
        if isinstance(side, str):
            return replace(attempt, outcome=AttemptOutcome.MALFORMED, detail=side), None
        candidate, target = self._candidate(waiting.step, waiting.number, side), self.target
        verdict = self._find(waiting, side)
        if isinstance(verdict, Refusal):
            return _refused(attempt, verdict), side
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
            prompt=waiting.talk.request.key,
            outcome=AttemptOutcome.JUDGED,
            parent=step.parent.attempt.id if step.parent else None,
        )

    def _side(self, exchange: Exchange, before: Sequence[Exchange]) -> Side | str:
        """The side that the last exchange of a conversation submits, or why there is none."""
        bench: Bench = Workbench(self.target, _not_here, _not_here) if exchange.content else Bench()
        try:
            reply, form = handed_in(bench, exchange, before)
        except CannotRun as error:
            return str(error)
        answer = prompts.read_reply(reply, form, self.target.wants)
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
        side_text: Side | str = ""
        if exchange and exchange.status not in _UNANSWERED:
            _, history = self.around.asking.transcripts.history(recorded.prompt)
            side_text = self._side(exchange, [earlier for earlier, _ in history])
        side = None if isinstance(side_text, str) else side_text
        if recorded.candidate is not None and side is not None and recorded.verdict is not None:
            candidate = self._candidate(step, number, side)
            self.variants.add(gates.known_of(candidate.id, candidate, side, recorded.verdict))
            self.around.keep(candidate, recorded.verdict, again=True)
        return self._tried(recorded, side, step)

    def _tried(self, attempt: Attempt, side: Side | None, step: Step) -> Tried:
        findings = prompts.feedback(self.target.made, attempt.outcome, attempt.detail, attempt.verdict)
        return Tried(attempt, side, findings, step.stage)


def _not_here(_: Side) -> Any:
    raise AssertionError("an answer is read without running a tool")


def _refused(attempt: Attempt, refusal: Refusal) -> Attempt:
    return replace(attempt, outcome=refusal.outcome, detail=refusal.detail)


def prompt_for(
    target: Target, step: Step, limits: Limits | None, examples: ExampleFinder, device: Environment | None
) -> Prompt:
    """The prompt for a step; `limits` of the tools that the model has (None: it has none).

    The prompt for a fast side names the `device`, if there is one.
    """
    gpu = ""
    if device is not None and target.made == "fast":
        described = (
            history.gpu_as_text(device),
            roofline.target(target.problem, target.start.family, device.device),
        )
        gpu = "\n".join(part for part in described if part)
    how = None if limits is None else tools.told(target.wants, limits.calls, limits.seconds)
    return prompts.build(
        target.material(gpu),
        step.technique,
        how,
        examples=examples(target, step.technique),
        action=step.action,
        earlier=_earlier(target, step.parent, step) if step.parent is not None else None,
        permitted=None if step.permitted is None else sorted(step.permitted),
        variant=target.variant,
    )


def turn_for(target: Target, step: Step, before: Tried) -> str:
    """The message after the answer `before` in the same conversation: the findings, and what to do.

    The goal is repeated if it changes, as between stages. The answer to continue from is shown if it is not
    `before`.
    """
    moves, parent = step.permitted is not None, step.parent
    best = _earlier(target, parent) if parent is not None and parent is not before else None
    earlier = history.attempts_as_text(step.history)
    return prompts.go_on(
        step.action if parent is not None else "repair",
        f"{before.findings}\n{earlier}",
        material=target.material() if moves else None,
        technique=step.technique,
        permitted=sorted(step.permitted) if step.permitted is not None else None,
        best=best,
    )


def _earlier(target: Target, tried: Tried, step: Step | None = None) -> prompts.Earlier:
    """An earlier answer with its findings; with a `step`, also with that step's history."""
    findings = (
        f"{tried.findings}\n{history.attempts_as_text(step.history)}" if step is not None else tried.findings
    )
    if tried.side is None:
        return prompts.Earlier("", None, findings)
    return shown.earlier(tried.side, target.given, findings)
