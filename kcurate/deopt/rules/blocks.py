"""Rules on block size: the plan changes, and the code only where a constant stands for a block extent.

- small-blocks: blocks of 32 threads, and proportionally more of them.
- one-thread-blocks: blocks of at most 32 threads become as many blocks of one thread.

Required: `threadIdx`, `blockIdx`, `blockDim` and `gridDim` occur only as the global index `blockIdx.x *
blockDim.x + threadIdx.x` (or blocks in rows: `(blockIdx.y * gridDim.x + blockIdx.x) * blockDim.x +
threadIdx.x`) and as `gridDim.x * blockDim.x`, in one expression or through locals that are set once and
used for nothing else; a constant equal to the block's extent counts as `blockDim.x`. No shared memory,
barrier, fence or warp function, except barriers at the end of the kernel, which order nothing. Then the
global indices stay the same, each taken by one thread. The new extent divides the old one.

Not covered: two-dimensional blocks, extents that depend on sizes.
"""

from __future__ import annotations

from dataclasses import replace

from kcurate.cuda_source.edit import Edit, Function, Node, Tree, ancestors
from kcurate.deopt.rules.base import Given, NotApplicable, Rule
from kcurate.deopt.rules.plans import block, own_name, same_block, with_launches
from kcurate.deopt.rules.ranges import Ranges
from kcurate.deopt.rules.threads import (
    all_in_sight,
    builtins,
    in_macros,
    is_global_index,
    is_index_of_rows,
    is_stride,
    is_width,
    last_barriers,
    needs_blocks,
    only_value,
    reachable,
)
from kcurate.records import Launch, Side

SMALL = 32
_WIDTHS = ("identifier", "number_literal", "parenthesized_expression")
_OTHER_AXES = (b"blockIdx.y", b"blockIdx.z", b"gridDim.y", b"gridDim.z")


def small_blocks(given: Given) -> Side | NotApplicable:
    """Launch blocks of one warp."""
    return _resized(given, SMALL, "blocks are already small, or not whole warps")


def one_thread_blocks(given: Given) -> Side | NotApplicable:
    """Launch a block per thread, for blocks of a warp or less."""
    return _resized(given, 1, "blocks have one thread, or more than a warp")


def _fits(width: int, size: int) -> bool:
    """Whether the rule for a block size applies to blocks of that width."""
    return 1 < width <= SMALL if size == 1 else width > size and width % size == 0


def _resized(given: Given, size: int, otherwise: str) -> Side | NotApplicable:
    tree = given.tree
    reason = "no kernel in one-dimensional blocks of known size"
    edits: list[Edit] = []
    changed: set[str] = set()
    for function in tree.functions():
        extents = same_block(given.side, function.name)
        if not function.kernel or not extents or extents[1:] != (1, 1):
            continue
        if not _fits(extents[0], size):
            reason = otherwise
            continue
        called = reachable(tree, function)
        found = _width_edits(Ranges(tree, function, extents))
        if needs_blocks(tree, called, last_barriers(tree, function)) or not all_in_sight(tree):
            reason = "the code may depend on which threads form a block"
        elif found is None or any(any(builtins(tree, one.node)) for one in called[1:]):
            reason = "the code uses built-ins other than in the global index"
        else:
            edits += found
            changed.add(function.name.decode("latin-1"))
    if not changed:
        return NotApplicable(reason)
    plan = with_launches(
        given.side.plan, lambda one: _smaller(one, size) if own_name(one) in changed else one
    )
    made = given.with_edits(edits, "") if edits else given.side
    return made if isinstance(made, NotApplicable) else replace(made, plan=plan)


def _smaller(launch: Launch, size: int) -> Launch:
    width = block(launch)[0] or size
    return replace(launch, grid=(f"({launch.grid[0]}) * {width // size}", *launch.grid[1:]), block=(size,))


def _width_edits(ranges: Ranges) -> list[Edit] | None:
    """Constants that stand for the block extent, to become `blockDim.x`; None: built-ins have other uses."""
    tree, body, edits = ranges.tree, ranges.function.body, set()
    covered: set[int] = set()
    for node in tree.nodes("binary_expression", within=body):
        known = (is_global_index, is_index_of_rows, is_stride)
        if node.id in covered or not any(one(ranges, node) for one in known):
            continue
        inside = list(tree.nodes(within=node))
        covered |= {part.id for part in inside}
        found = [part for part in inside if part.type in _WIDTHS and is_width(ranges, part)]
        if b"blockDim.x" in b"".join(node.text.split()):
            continue
        if found:
            edits.add(Edit(found[0].start_byte, found[0].end_byte, b"blockDim.x"))
        elif not _named_width(ranges, node):
            return None
    if not covered:
        return None
    for node, text in builtins(tree, body):
        if not text.startswith(_OTHER_AXES) and not _serves(tree, ranges.function, node, covered):
            return None
    return list(edits)


def _named_width(ranges: Ranges, node: Node) -> bool:
    """Whether the names in an index stand for expressions that contain `blockDim.x`."""
    names = {part.text for part in ranges.tree.nodes("identifier", within=node)}
    return any(
        one.name in names and one.value is not None and b"blockDim.x" in b"".join(one.value.text.split())
        for one in ranges.tree.declared(ranges.function.body)
    )


def _serves(tree: Tree, function: Function, node: Node, covered: set[int], depth: int = 0) -> bool:
    """Whether a use is part of a known index, or initialises a local used only in one."""
    if node.id in covered:
        return True
    if depth > 8:
        return False
    for one in tree.declared(function.body):
        value = only_value(tree, function, one)
        if value is None or not (value.start_byte <= node.start_byte < value.end_byte):
            continue
        many = sum(other.name == one.name for other in tree.declared(function.body)) != 1
        if many or in_macros(tree, one.name):
            return False
        set_by = {one.node.id}
        if assignment := next((up for up in ancestors(value) if up.type == "assignment_expression"), None):
            set_by.add(assignment.child_by_field_name("left").id)
        uses = [use for use in tree.uses(one.name, within=function.body) if use.id not in set_by]
        return bool(uses) and all(_serves(tree, function, use, covered, depth + 1) for use in uses)
    return False


RULES: tuple[Rule, ...] = (
    Rule("small-blocks", "occupancy", "blocks large enough to fill an SM", small_blocks),
    Rule("one-thread-blocks", "occupancy", "blocks of more than one thread", one_thread_blocks),
)
