"""Turns a completion into a candidate: parse the answer, put it in place of the fast side, validate it.

A completion that cannot be judged becomes a `Refused`, with the reason as its outcome. Copies of the given
kernel are detected here. An exact copy with the same launch is not judged (it is the reference); a copy with
other names or another launch is. Neither earns any speedup. Not covered: what an outcome earns
(`reward.schemes`).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum

from kcurate import prompts
from kcurate.cuda_source import normalised_tokens
from kcurate.cuda_source.compare.similarity import fingerprint
from kcurate.problem.answered import misfit, side_of
from kcurate.problem.techniques import not_permitted
from kcurate.records import Candidate, Side
from kcurate.reward.task import Task


class Refusal(StrEnum):
    """Why a completion is not judged, in the order of the checks.

    `unreadable`: the reply has no answer; `malformed`: the answer does not fit the problem; `not_permitted`:
    it uses techniques that the task does not permit; `copied`: it is the given code.
    """

    UNREADABLE = "unreadable"
    MALFORMED = "malformed"
    NOT_PERMITTED = "not_permitted"
    COPIED = "copied"


@dataclass(frozen=True)
class Refused:
    """A completion that is not judged, and why."""

    outcome: Refusal
    detail: str = ""


@dataclass(frozen=True)
class Readable:
    """A completion that is a candidate. `copied`: its code equals the given code except for names."""

    candidate: Candidate
    copied: bool = False


def read(task: Task, reply: str | prompts.Answer) -> Readable | Refused:
    """The candidate in a completion, or in an answer read from one; never raises, whatever a model wrote."""
    wanted = task.template.fast.language
    answer = prompts.read_reply(reply, "text", wanted) if isinstance(reply, str) else reply
    if isinstance(answer, prompts.Unreadable):
        return Refused(Refusal.UNREADABLE, answer.reason)
    slow, problem = task.template.slow, task.template.problem
    if problem is None:
        return Refused(Refusal.MALFORMED, "the task has no problem")
    side = side_of(answer, slow, problem, wanted)
    if isinstance(side, str):
        return Refused(Refusal.MALFORMED, side)
    candidate = replace(task.template, fast=side)
    if (why := misfit(candidate)) is not None:
        return Refused(Refusal.MALFORMED, why)
    if task.permitted is not None and (forbidden := not_permitted(side.code, task.permitted)):
        return Refused(Refusal.NOT_PERMITTED, ", ".join(forbidden))
    if _tokens(side) == _tokens(slow) and (side.plan, side.buffers) == (slow.plan, slow.buffers):
        return Refused(Refusal.COPIED, "the given code with the given launch")
    if task.shown and task.shown == fingerprint(side.code).exact:
        return Refused(Refusal.COPIED, "the earlier answer that the prompt shows")
    return Readable(candidate, fingerprint(side.code).exact == fingerprint(slow.code).exact)


def _tokens(side: Side) -> tuple[bytes, ...]:
    return normalised_tokens(side.code.encode("utf-8", "replace"))
