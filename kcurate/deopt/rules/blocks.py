"""Rules on block size, and on which thread takes which global index.

- small-blocks: blocks of 32 threads, and proportionally more of them.
- one-thread-blocks: each block of n threads, at most 32, becomes n blocks of one thread.
- part-warps: blocks of 8 threads, and proportionally more of them, so most lanes of a warp are idle. In no
  ladder, since small-blocks is in it.
- strided-threads: `blockIdx.x * blockDim.x + threadIdx.x` becomes `threadIdx.x * gridDim.x + blockIdx.x`, in
  blocks and grids of any extents, so neighbouring threads are as far apart as there are blocks. The other
  axes may be used in any way. In no ladder, since the other rules here and `chunks` need the original index.

The first three change the plan; they change the code only where a constant stands for a block extent.
Required: `threadIdx`, `blockIdx`, `blockDim` and `gridDim` occur only as the global index `blockIdx.x *
blockDim.x + threadIdx.x` (or blocks in rows: `(blockIdx.y * gridDim.x + blockIdx.x) * blockDim.x +
threadIdx.x`) and as `gridDim.x * blockDim.x`, in one expression or through locals that are set once and used
nowhere else; a constant equal to the block's extent counts as `blockDim.x`. No shared memory, barrier,
fence or warp function, except barriers at the end of the kernel, which order nothing. The new extent divides
the old one. Then the set of global indices stays the same, and each belongs to one thread.

Not covered: smaller blocks of two dimensions, or of extents that depend on sizes; strided threads of blocks
in rows.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from kcurate.cuda_source.parse.syntax_tree import Function, Node, Tree, ancestors
from kcurate.cuda_source.rewrite.edits import Edit
from kcurate.deopt.rules import threads
from kcurate.deopt.rules.base import NotApplicable, Rule, Subject
from kcurate.deopt.rules.plans import block, launches, own_name, same_block, with_launches
from kcurate.deopt.rules.ranges import Ranges
from kcurate.records import Launch, Side

SMALL, PART = 32, 8
_WIDTHS = ("identifier", "number_literal", "parenthesized_expression")
_OTHER_AXES = (b"blockIdx.y", b"blockIdx.z", b"gridDim.y", b"gridDim.z")
_NOT_X = tuple(b"%b.%b" % (name, axis) for name in threads.BUILTINS for axis in (b"y", b"z"))
Index = Callable[[Ranges, Node], bool]


def small_blocks(subject: Subject) -> Side | NotApplicable:
    """Launch blocks of one warp."""
    return _resized(subject, SMALL, "blocks are already small, or not whole warps")


def one_thread_blocks(subject: Subject) -> Side | NotApplicable:
    """Launch a block per thread, for blocks of a warp or less."""
    return _resized(subject, 1, "blocks have one thread, or more than a warp")


def part_warps(subject: Subject) -> Side | NotApplicable:
    """Launch blocks of a quarter of a warp."""
    return _resized(subject, PART, "blocks have less than a warp, or not whole warps")


def _fits(width: int, size: int) -> bool:
    """Whether the rule for a block size applies to blocks of that width."""
    return 1 < width <= SMALL if size == 1 else width > size and width % max(size, SMALL) == 0


def _resized(subject: Subject, size: int, unfit: str) -> Side | NotApplicable:
    tree = subject.tree
    reason = "no kernel in one-dimensional blocks of known size"
    edits: list[Edit] = []
    changed: set[str] = set()
    for function in tree.functions():
        extents = same_block(subject.side, function.name)
        if not function.kernel or not extents or extents[1:] != (1, 1):
            continue
        if not _fits(extents[0], size):
            reason = unfit
            continue
        called = threads.reachable(tree, function)
        width_edits = _width_edits(Ranges(tree, function, extents))
        if threads.depends_on_blocks(tree, function, called):
            reason = "the code may depend on which threads form a block"
        elif width_edits is None or threads.any_uses_builtins(tree, called[1:]):
            reason = "the code uses built-ins other than in the global index"
        else:
            edits += width_edits
            changed.add(function.name.decode("latin-1"))
    if not changed:
        return NotApplicable(reason)
    plan = with_launches(
        subject.side.plan, lambda launch: _smaller(launch, size) if own_name(launch) in changed else launch
    )
    narrowed = subject.with_edits(edits, "") if edits else subject.side
    return narrowed if isinstance(narrowed, NotApplicable) else replace(narrowed, plan=plan)


def _smaller(launch: Launch, size: int) -> Launch:
    width = block(launch)[0] or size
    return replace(launch, grid=(f"({launch.grid[0]}) * {width // size}", *launch.grid[1:]), block=(size,))


def _width_edits(ranges: Ranges) -> list[Edit] | None:
    """Constants that stand for the block extent, to become `blockDim.x`; None: built-ins have other uses."""
    edits: list[Edit] = []
    indices = _indices(ranges, (threads.is_global_index, threads.is_row_major_global_index), _OTHER_AXES)
    for node in indices or ():
        if b"blockDim.x" in b"".join(node.text.split()):
            continue
        inside = ranges.tree.nodes(*_WIDTHS, within=node)
        width = next((part for part in inside if threads.is_block_width(ranges, part)), None)
        if width is not None:
            edits.append(Edit(width.start_byte, width.end_byte, b"blockDim.x"))
        elif not _named_width(ranges, node):
            return None
    return None if indices is None else edits


def _indices(ranges: Ranges, known: Sequence[Index], free: tuple[bytes, ...]) -> list[Node] | None:
    """Every outermost expression that is an index or a stride.

    None: there is none, or built-ins other than the `free` ones are also used elsewhere.
    """
    tree, body = ranges.tree, ranges.function.body
    nodes: list[Node] = []
    covered: set[int] = set()
    for node in tree.nodes("binary_expression", within=body):
        if node.id not in covered and any(
            is_known(ranges, node) for is_known in (*known, threads.is_grid_stride)
        ):
            nodes.append(node)
            covered |= {part.id for part in tree.nodes(within=node)}
    for node, text in threads.builtins(tree, body):
        if not text.startswith(free) and not _serves(tree, ranges.function, node, covered):
            return None
    return nodes or None


def strided_threads(subject: Subject) -> Side | NotApplicable:
    """Give neighbouring threads elements that are `gridDim.x` apart."""
    tree = subject.tree
    reason = "no kernel whose threads have a global index"
    edits: list[Edit] = []
    for function in tree.functions():
        if not function.kernel or all(
            block(launch)[0] == 1 for launch in launches(subject.side, function.name)
        ):
            continue
        ranges = Ranges(tree, function, same_block(subject.side, function.name))
        called = threads.reachable(tree, function)
        indices = _indices(ranges, (threads.is_global_index,), _NOT_X)
        if threads.depends_on_blocks(tree, function, called):
            reason = "the code may depend on which threads form a block"
        elif indices is None or threads.any_uses_builtins(tree, called[1:]):
            reason = "the code uses built-ins other than in the global index"
        elif not all(_typed(node) for node in indices):
            reason = "the type of a global index is not known"
        else:
            edits += [_strided(tree, node) for node in indices if threads.is_global_index(ranges, node)]
    return subject.with_edits(edits, reason)


def _typed(node: Node) -> bool:
    """Whether an index has the type of its built-ins, or is stored in a variable that determines its type."""
    text = b"".join(node.text.split())
    stored = node.parent.type in ("init_declarator", "assignment_expression")
    return stored or all(name in text for name in (b"blockIdx.x", b"threadIdx.x"))


def _strided(tree: Tree, node: Node) -> Edit:
    """The index in the other order, in the type of the first cast in it."""
    casts = tree.nodes("cast_expression", within=node)
    cast = next((b"(%b)" % tree.text(cast_node.child_by_field_name("type")) for cast_node in casts), b"")
    text = b"%bthreadIdx.x * gridDim.x + blockIdx.x" % cast
    delimited = node.parent.type in ("init_declarator", "assignment_expression", "parenthesized_expression")
    return Edit(node.start_byte, node.end_byte, text if delimited else b"(%b)" % text)


def _named_width(ranges: Ranges, node: Node) -> bool:
    """Whether the names in an index stand for expressions that contain `blockDim.x`."""
    names = {part.text for part in ranges.tree.nodes("identifier", within=node)}
    return any(
        local.name in names
        and local.value is not None
        and b"blockDim.x" in b"".join(local.value.text.split())
        for local in ranges.tree.declared(ranges.function.body)
    )


def _serves(tree: Tree, function: Function, node: Node, covered: set[int], depth: int = 0) -> bool:
    """Whether a use is part of a known index, or initialises a local used only in one."""
    if node.id in covered:
        return True
    if depth > 8:  # locals set from locals
        return False
    for declaration in tree.declared(function.body):
        value = threads.only_value(tree, function, declaration)
        if value is None or not (value.start_byte <= node.start_byte < value.end_byte):
            continue
        redeclared = sum(other.name == declaration.name for other in tree.declared(function.body)) != 1
        if redeclared or threads.named_in_a_macro(tree, declaration.name):
            return False
        set_by = {declaration.node.id}
        if assignment := next((up for up in ancestors(value) if up.type == "assignment_expression"), None):
            set_by.add(assignment.child_by_field_name("left").id)
        uses = [use for use in tree.uses(declaration.name, within=function.body) if use.id not in set_by]
        return bool(uses) and all(_serves(tree, function, use, covered, depth + 1) for use in uses)
    return False


RULES: tuple[Rule, ...] = (
    Rule("small-blocks", "occupancy", "blocks large enough to fill an SM", small_blocks),
    Rule("one-thread-blocks", "occupancy", "blocks of more than one thread", one_thread_blocks),
    Rule("part-warps", "occupancy", "blocks of whole warps", part_warps, ladder=False),
    Rule(
        "strided-threads",
        "coalesced-access",
        "coalesced access by neighbouring threads",
        strided_threads,
        ladder=False,
    ),
)
