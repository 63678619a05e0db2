"""Rewrite rules: each removes one technique from a side, if the text and the plan prove that it is safe.

A rule that does not apply gives the reason. Comments, strings and macro bodies are never changed. Each
module's docstring states what its rules require, with the source. Rules apply in this order: structural rules
first, so that no rule hides what a later one needs to see, compiler hints last, then the rules for sides in
Triton. To add a rule, add it to the `RULES` of its module, or add the `RULES` of a new module here, at its
place in the order (`docs/deopt-rules.md`).

| module | rules |
|---|---|
| `reductions`, `counters` | tree-to-atomics, private-to-global |
| `staging` | tile-to-global |
| `mapping` | swap-axes |
| `blocks` | small-blocks, one-thread-blocks, part-warps, strided-threads |
| `chunks`, `barrier_chunks` | contiguous-chunks, chunks-between-barriers |
| `padding` | padding |
| `copies`, `vectors` | async-to-plain, vector-to-scalar |
| `exchange` | shuffle-to-shared, vote-to-shared |
| `memory` | constant-to-global |
| `arithmetic` | full-precision, double-literals |
| `hints` | launch-bounds, unroll |
| `triton_values`, `triton_rules` | those for sides in Triton |
| `plugin_rules` | those of installed plugins, after all others |

| module | shared analyses |
|---|---|
| `base` | the types of a rule: its input, and its result or refusal |
| `plans` | a side's launches and blocks, and the plan with launches replaced |
| `threads` | how a kernel computes its thread indices |
| `barrier_parts` | the code between barriers, as loops over elements |
| `relocation` | rewrites an expression for another scope |
| `ranges`, `index_enumeration` | bounds of integer expressions |
| `variable_uses` | which declaration a name refers to, and whether it is only read, or set before use |
| `statement_removal` | statements removed with the code that becomes empty |
"""

from kcurate.deopt.rules import (
    arithmetic,
    barrier_chunks,
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
    *barrier_chunks.RULES,
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
