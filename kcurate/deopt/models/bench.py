"""Runs the tools that a model has while it writes a side, by the judge and the profiler.

A version is judged once: `compile`, `run_tests` and `time` each report a part of its one verdict. Not
covered: the schemas and their description (`kcurate.prompts.tools`), the conversation and its budgets
(`kcurate.models.conversation`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from kcurate import prompts
from kcurate.core import codec
from kcurate.deopt.models import history
from kcurate.deopt.models.gates import Refusal
from kcurate.deopt.models.targets import Target
from kcurate.models.conversation import Bench, Call, CannotRun, numbered, versions
from kcurate.problem.answered import side_of
from kcurate.problem.shown import launch_data
from kcurate.prompts import Unreadable, tools
from kcurate.records import AttemptOutcome, Exchange, Outcome, Side, SideName, Verdict

_LATER = list(Outcome).index(Outcome.COMPILE_ERROR)
# What a tool did not do with a version that is not correct.
_NOT_DONE = {tools.RUN: "", tools.TIME: "Not timed. ", tools.PROFILE: "Not profiled. "}
# A side's verdict, or why it is not judged.
Finding = Verdict | Refusal


@dataclass(frozen=True)
class Workbench(Bench):
    """The tools of one search. `find` judges a side, once.

    `profile`: the counters of a side and of the given one, by side; empty where none can be counted.
    """

    target: Target
    find: Callable[[Side], Finding]
    profile: Callable[[Side], Mapping[str, Mapping[str, float]]]
    with_runs: bool = True

    @property
    def runs(self) -> frozenset[str]:
        """The names of the tools that do not end a conversation."""
        return tools.RUNS if self.with_runs else frozenset()

    @property
    def tools(self) -> Sequence[Mapping[str, Any]]:
        """The definitions of all tools."""
        return definitions(self.target, runs=self.with_runs)

    def run(self, call: Call, before: Sequence[Exchange]) -> str:
        """See `Bench`. Versions are numbered from 1, in the order in which they were given to `compile`."""
        if call.name == tools.COMPILE:
            number = len(versions(before)) + 1
            return self._compile(self._side(call.arguments), number)
        side = self._side(numbered(call, before))
        finding = self.find(side)
        if isinstance(finding, Refusal) or not finding.outcome.correct:
            return f"{_NOT_DONE[call.name]}{self._said(finding)}"
        if call.name == tools.RUN:
            return "All tests pass: every element of every output agrees at all sizes and inputs."
        if call.name == tools.TIME:
            return self._time(finding)
        return (
            history.counters_as_text(self.profile(side), self.target.made) or "Nothing can be counted here."
        )

    def _side(self, arguments: Mapping[str, Any]) -> Side:
        answer = prompts.read_reply(codec.canonical_json(arguments).decode(), "tool", self.target.wants)
        if isinstance(answer, Unreadable):
            raise CannotRun(answer.reason)
        side = side_of(answer, self.target.given, self.target.problem, self.target.wants)
        if isinstance(side, str):
            raise CannotRun(side)
        return side

    def _compile(self, side: Side, number: int) -> str:
        finding = self.find(side)
        if isinstance(finding, Refusal) or list(Outcome).index(finding.outcome) <= _LATER:
            return f"Version {number}: {self._said(finding)}"
        report = getattr(finding, self.target.made)
        used = [
            line
            for kernel in (report.resources if report else ())
            if (line := history.resources_as_text(kernel))
        ]
        return f"Version {number} compiles. {'; '.join(used)}".rstrip()

    def _time(self, finding: Verdict) -> str:
        if finding.speedup is None:
            return f"No time: {finding.detail or 'no times are taken here'}."
        return f"{self._said(finding)}\n{history.times_as_text(finding, self.target.made)}"

    def _said(self, finding: Finding) -> str:
        side: SideName = self.target.made
        if isinstance(finding, Refusal):
            return prompts.feedback(side, finding.outcome, finding.detail)
        return prompts.feedback(side, AttemptOutcome.JUDGED, "", finding)


def definitions(target: Target, *, runs: bool) -> list[dict[str, Any]]:
    """The tools of a search for a target."""
    same = target.wants == target.given.language
    plan = launch_data(target.given)["plan"] if same else ()
    return tools.tools(target.wants, plan, tools.RUNS if runs else ())
