"""A rule: a named change to a side (code and plan) that removes one technique, or refuses with a reason.

Not covered: the rules themselves (one module per family), whether a result is slower (`kcurate validate`).
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import cached_property

from kcurate.cuda_source.parse.items import tree_of
from kcurate.cuda_source.parse.syntax_tree import Tree
from kcurate.cuda_source.rewrite.edits import Edit, edited
from kcurate.deopt.rules.plans import with_launches
from kcurate.errors import ProblemError
from kcurate.records import Language, Launch, Problem, Side
from kcurate.triton_source import parsed


@dataclass(frozen=True)
class NotApplicable:
    """Why a rule leaves a side unchanged."""

    reason: str


@dataclass(frozen=True)
class Subject:
    """A side to rewrite; `problem` is None if unknown. The parsed code is `tree`, or `module` for Triton."""

    side: Side
    problem: Problem | None

    @cached_property
    def tree(self) -> Tree:
        """The parsed CUDA code."""
        return tree_of(self.side.code.encode("utf-8", "surrogateescape"))

    @property
    def module(self) -> ast.Module:
        """The parsed Triton code, which must not be modified."""
        return parsed(self.side.code)

    def with_edits(
        self, edits: Iterable[Edit], reason: str, change: Callable[[Launch], Launch] | None = None
    ) -> Side | NotApplicable:
        """The side with edited code and changed launches; a refusal with `reason` if there are no edits."""
        all_edits = tuple(edits)
        replaced = dict.fromkeys(edit for edit in all_edits if edit.start < edit.end)
        applied = (*replaced, *(edit for edit in all_edits if edit.start == edit.end))
        if not applied:
            return NotApplicable(reason)
        try:
            code = edited(self.tree.source, applied)
        except ValueError:  # only if the grammar misparsed the code
            return NotApplicable("the code does not parse")
        plan = with_launches(self.side.plan, change) if change else self.side.plan
        return replace(self.side, code=code.decode("utf-8", "surrogateescape"), plan=plan)


Change = Callable[[Subject], Side | NotApplicable]


@dataclass(frozen=True)
class Rule:
    """A rewrite: its name, the technique label of the resulting pair, what it removes (in words), the change.

    `ladder`: whether it is also applied together with other rules.
    """

    name: str
    technique: str
    removes: str
    change: Change
    language: Language = "cuda"
    ladder: bool = True

    def apply(self, side: Side, problem: Problem | None = None) -> Side | NotApplicable:
        """The side without the technique; code, plan and `nondeterministic` may change."""
        if side.language != self.language:
            return NotApplicable(f"the side is in {side.language}, not in {self.language}")
        try:
            changed = self.change(Subject(side, problem))
        except ProblemError as error:
            return NotApplicable(error.what)
        if isinstance(changed, Side) and changed == side:
            return NotApplicable("nothing changes")
        return changed
