"""Rewrite rules: each takes one technique out of a side, where the text and the plan prove that it is safe.

A rule says why when it does not apply. Comments, strings and macro bodies are never changed. Each module's
docstring states what its rules require and where that comes from. The order is that of a ladder: structure
first, so that no rule hides from a later one what that needs to see; what only advises the compiler last.

| module | rules |
|---|---|
| `reductions`, `counters` | tree-to-atomics, private-to-global |
| `staging` | tile-to-global (`meaning`, `reads`, `removing` help) |
| `mapping` | one-element, swap-axes (`threads`, `loops` help) |
| `blocks` | small-blocks, one-thread-blocks (`threads` helps) |
| `chunks`, `regions` | contiguous-chunks, chunks-between-barriers (`threads`, `parts` help) |
| `padding` | padding (`ranges` helps) |
| `copies`, `vectors` | async-to-plain, vector-to-scalar |
| `exchange` | shuffle-to-shared, vote-to-shared |
| `memory` | constant-to-global, texture-to-global |
| `arithmetic` | full-precision, double-literals |
| `hints` | read-only-loads, restrict, launch-bounds, unroll |
"""

from kcurate.deopt.rules import (
    arithmetic,
    blocks,
    chunks,
    copies,
    counters,
    exchange,
    hints,
    mapping,
    memory,
    padding,
    reductions,
    regions,
    staging,
    vectors,
)
from kcurate.deopt.rules.base import NotApplicable, Rule

RULES: tuple[Rule, ...] = (
    *reductions.RULES,
    *counters.RULES,
    *staging.RULES,
    *mapping.RULES,
    *blocks.RULES,
    *chunks.RULES,
    *regions.RULES,
    *padding.RULES,
    *copies.RULES,
    *vectors.RULES,
    *exchange.RULES,
    *memory.RULES,
    *arithmetic.RULES,
    *hints.RULES,
)

__all__ = ["RULES", "NotApplicable", "Rule"]
