"""Rewrite rules: each removes one technique from a side, if the text and the plan prove that it is safe.

A rule that does not apply says why. Comments, strings and macro bodies are never changed. Each module's
docstring states what its rules require and where that comes from. The order is that of a ladder: structural
rules first, so that no rule hides what a later one needs to see; compiler hints last.

| module | rules |
|---|---|
| `reductions`, `counters` | tree-to-atomics, private-to-global |
| `staging` | tile-to-global (with `meaning`, `reads`, `removing`) |
| `mapping` | one-element, swap-axes (with `threads`, `loops`) |
| `blocks` | small-blocks, one-thread-blocks, part-warps, strided-threads (with `threads`) |
| `chunks`, `regions` | contiguous-chunks, chunks-between-barriers (with `threads`, `parts`) |
| `padding` | padding (with `ranges`) |
| `copies`, `vectors` | async-to-plain, vector-to-scalar |
| `exchange` | shuffle-to-shared, vote-to-shared |
| `memory` | constant-to-global, texture-to-global |
| `arithmetic` | full-precision, double-literals |
| `hints` | read-only-loads, restrict, launch-bounds, unroll |
| `triton_values`, `triton_rules` | those for sides in Triton |
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
    triton_values,
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
    *triton_values.RULES,
)

__all__ = ["RULES", "NotApplicable", "Rule"]
