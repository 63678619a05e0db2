"""The tools that Claude may have between the turns of an evaluation: the judge behind each, no profiler.

Not covered: schemas (`kcurate.prompts.tools`), budgets (`kcurate.models.conversation`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from kcurate import prompts
from kcurate.core import codec
from kcurate.models.conversation import Call, CannotRun, Limits, made_by, numbered
from kcurate.problem.shown import launch_data
from kcurate.prompts import Unreadable, tools
from kcurate.prompts.tasks import TEXT_FORM
from kcurate.records import Exchange, Outcome, Prompt
from kcurate.reward.feedback import feedback_on
from kcurate.reward.task import Judged, Pool, Task

RUNS = tools.RUNS - {tools.PROFILE}
_LATER = list(Outcome).index(Outcome.COMPILE_ERROR)


@dataclass(frozen=True)
class TaskBench:
    """The bench of one task (`kcurate.models.conversation.Bench`). The pool judges a version once."""

    task: Task
    pool: Pool

    @property
    def tools(self) -> Sequence[Mapping[str, Any]]:
        """The definitions of all tools."""
        return tools.tools("cuda", launch_data(self.task.template.slow)["plan"], RUNS)

    @property
    def runs(self) -> frozenset[str]:
        """The names of those that do not end a conversation."""
        return RUNS

    def run(self, call: Call, before: Sequence[Exchange]) -> str:
        """See `Bench`."""
        if call.name == tools.COMPILE:
            judged = self._judged(call.arguments)
            number = len(made_by(tools.COMPILE, before)) + 1
            verdict = judged.verdict
            compiles = verdict is not None and list(Outcome).index(verdict.outcome) > _LATER
            return f"Version {number} compiles." if compiles else f"Version {number}: {feedback_on(judged)}"
        judged = self._judged(numbered(call, before, tools.COMPILE))
        correct = judged.verdict is not None and judged.verdict.outcome.correct
        if call.name == tools.RUN and correct:
            return "All tests pass: every element of every output agrees at all sizes and inputs."
        return feedback_on(judged)

    def answer(self, call: Call, before: Sequence[Exchange]) -> Mapping[str, Any]:
        """See `Bench`."""
        by_number = call.name == tools.SUBMIT_VERSION
        return numbered(call, before, tools.COMPILE) if by_number else call.arguments

    def prompt(self, limits: Limits) -> Prompt:
        """The task's prompt, which tells of the tools in place of the form of a text."""
        prompt = self.task.prompt
        how = tools.told("cuda", limits.calls, limits.seconds, RUNS)
        return replace(prompt, system=prompt.system.removesuffix(TEXT_FORM) + how)

    def _judged(self, given: Mapping[str, Any]) -> Judged:
        answer = prompts.read_reply(codec.canonical_json(given).decode(), "tool")
        if isinstance(answer, Unreadable):
            raise CannotRun(answer.reason)
        return asyncio.run(self.pool.score([self.task], [answer]))[0]
