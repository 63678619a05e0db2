"""Rewrite rules: each takes one technique out of a side, where the text and the plan prove that it is safe.

A rule says why when it does not apply. Comments, strings and macro bodies are never changed. Each module's
docstring states what its rules require and where that comes from.
"""

from kcurate.deopt.rules import (
    arithmetic,
    copies,
    exchange,
    hints,
    mapping,
    memory,
    padding,
    staging,
    vectors,
)
from kcurate.deopt.rules.base import NotApplicable, Rule

RULES: tuple[Rule, ...] = (
    *hints.RULES,
    *memory.RULES,
    *arithmetic.RULES,
    *exchange.RULES,
    *copies.RULES,
    *vectors.RULES,
    *padding.RULES,
    *staging.RULES,
    *mapping.RULES,
)

__all__ = ["RULES", "NotApplicable", "Rule"]
