"""A rule: a named change of a side (code and plan) that removes one technique, or refuses with a reason.

Not covered: the rules themselves (one module per family), and whether a result is slower (`kcurate
validate`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

from kcurate.cuda_source.edit import Edit, Tree, edited, tree_of
from kcurate.deopt.rules.plans import with_launches
from kcurate.records import Launch, Problem, Side


@dataclass(frozen=True)
class NotApplicable:
    """Why a rule leaves a side unchanged."""

    reason: str


@dataclass(frozen=True)
class Given:
    """A side to rewrite; `problem` is None if unknown, `tree` is the parsed code."""

    side: Side
    problem: Problem | None
    tree: Tree

    def with_edits(
        self, edits: Iterable[Edit], reason: str, change: Callable[[Launch], Launch] | None = None
    ) -> Side | NotApplicable:
        """The side with edited code and changed launches; without any edit, a refusal for `reason`."""
        given = tuple(edits)
        replaced = dict.fromkeys(edit for edit in given if edit.start < edit.end)
        made = (*replaced, *(edit for edit in given if edit.start == edit.end))
        if not made:
            return NotApplicable(reason)
        try:
            code = edited(self.tree.source, made)
        except ValueError:  # only if the grammar misparsed the code
            return NotApplicable("the code does not parse")
        plan = with_launches(self.side.plan, change) if change else self.side.plan
        return replace(self.side, code=code.decode("utf-8", "surrogateescape"), plan=plan)


Change = Callable[[Given], Side | NotApplicable]


@dataclass(frozen=True)
class Rule:
    """A rewrite: its name, the technique that a pair then shows, what it removes in words."""

    name: str
    technique: str
    removes: str
    change: Change

    def apply(self, side: Side, problem: Problem | None = None) -> Side | NotApplicable:
        """The side without the technique; code, plan and `nondeterministic` may change."""
        if side.language != "cuda":
            return NotApplicable(f"the side is in {side.language}, not in CUDA")
        source = side.code.encode("utf-8", "surrogateescape")
        made = self.change(Given(side, problem, tree_of(source)))
        if isinstance(made, Side) and made == side:
            return NotApplicable("nothing changes")
        return made
