"""A reply becomes a candidate: the answer read, put in place of the fast side, and checked for its form.

What keeps a reply from the judge is a `Refused` with an outcome of its own. Copies of the prompt's kernel are
told here: one with the same launch needs no judge (it is the reference), one with another launch or other
names is judged, and earns no speed either way. Not covered: what an outcome earns (`reward.schemes`).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum

from kcurate import prompts
from kcurate.cuda_source import normalised_tokens
from kcurate.cuda_source.similarity import fingerprint
from kcurate.problem.answered import misfit, side_of
from kcurate.problem.techniques import not_permitted
from kcurate.records import Candidate, Side
from kcurate.train.task import Task


class Refusal(StrEnum):
    """What ends a reply before the judge sees it, in the order in which it is asked.

    `unreadable`: no answer in the reply; `malformed`: an answer that is no side of the problem;
    `not_permitted`: it shows techniques that the task does not permit; `copied`: the code that was given.
    """

    UNREADABLE = "unreadable"
    MALFORMED = "malformed"
    NOT_PERMITTED = "not_permitted"
    COPIED = "copied"


@dataclass(frozen=True)
class Refused:
    """A reply that goes no further, and why."""

    outcome: Refusal
    detail: str = ""


@dataclass(frozen=True)
class Readable:
    """A reply that is a candidate. `copied`: its code is the given one but for names or the launch."""

    candidate: Candidate
    copied: bool = False


def read(task: Task, reply: str) -> Readable | Refused:
    """The candidate that a reply makes; never raises, whatever a model wrote."""
    answer = prompts.read_reply(reply, "text")
    if isinstance(answer, prompts.Unreadable):
        return Refused(Refusal.UNREADABLE, answer.reason)
    given, problem = task.template.slow, task.template.problem
    if problem is None:
        return Refused(Refusal.MALFORMED, "the task has no problem")
    side = side_of(answer, given, problem)
    if isinstance(side, str):
        return Refused(Refusal.MALFORMED, side)
    candidate = replace(task.template, fast=side)
    if (why := misfit(candidate)) is not None:
        return Refused(Refusal.MALFORMED, why)
    if task.permitted is not None and (more := not_permitted(side.code, task.permitted)):
        return Refused(Refusal.NOT_PERMITTED, ", ".join(more))
    if _tokens(side) == _tokens(given) and (side.plan, side.buffers) == (given.plan, given.buffers):
        return Refused(Refusal.COPIED, "the code and launch that were given")
    return Readable(candidate, fingerprint(side.code).exact == fingerprint(given.code).exact)


def _tokens(side: Side) -> tuple[bytes, ...]:
    return normalised_tokens(side.code.encode("utf-8", "replace"))
