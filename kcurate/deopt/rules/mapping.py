"""Rules on the mapping of threads to work: the plan changes with the code.

- swap-axes: `threadIdx.x` and `.y` swap roles, and so do `blockDim` and the plan's block. This renames the
  threads of a block; only their grouping into warps changes (CUDA C++ Programming Guide, "Thread Hierarchy"),
  so code that uses warps is refused, as are macros with built-ins.
- one-element: a grid-stride loop over `i < n` becomes `if (i < n)`, and the grid becomes as large as `n`
  needs. Required: the loop is the kernel's last statement, everything before it only declares values, and its
  iterations are independent (`loops`): then each `i` is processed once, as before.

Not covered: block sizes (`blocks`), 1-D blocks whose threads are laid out by division, reductions inside
grid-stride loops.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from kcurate.cuda_source.parse.syntax_tree import Function, Node, Tree
from kcurate.cuda_source.rewrite.edits import Edit
from kcurate.deopt.rules import threads
from kcurate.deopt.rules.base import NotApplicable, Rule, Subject
from kcurate.deopt.rules.loops import independent, only_values, plan_expression
from kcurate.deopt.rules.plans import block, launches, own_name, same_block
from kcurate.deopt.rules.ranges import Ranges
from kcurate.records import Launch, Side

SWAPPED = {
    b"threadIdx.x": b"threadIdx.y",
    b"threadIdx.y": b"threadIdx.x",
    b"blockDim.x": b"blockDim.y",
    b"blockDim.y": b"blockDim.x",
}


def swap_axes(subject: Subject) -> Side | NotApplicable:
    """Map neighbouring threads to the other axis, in all kernels with two-dimensional blocks."""
    tree = subject.tree
    flat = {own_name(launch).encode() for launch in launches(subject.side) if not _two_dimensional(launch)}
    kernels = [function for function in tree.functions() if function.kernel]
    tall = [kernel for kernel in kernels if kernel.name not in flat and launches(subject.side, kernel.name)]
    touched = {function.node.id: function for kernel in tall for function in threads.reachable(tree, kernel)}
    others = [
        function for kernel in kernels if kernel not in tall for function in threads.reachable(tree, kernel)
    ]
    if not tall:
        return NotApplicable("no kernel known to have two-dimensional blocks")
    if threads.depends_on_warps(tree, tuple(touched.values())) or not threads.all_builtins_visible(tree):
        return NotApplicable("the code may depend on which threads form a warp")
    if any(function.node.id in touched and any(threads.builtins(tree, function.node)) for function in others):
        return NotApplicable("a function with thread indices also runs in one-dimensional blocks")
    edits = _swapped_builtins(tree, touched.values())
    if not {b"threadIdx.x", b"threadIdx.y"} <= {edit.text for edit in edits}:
        return NotApplicable("the code does not use both axes")
    names = {kernel.name.decode("latin-1") for kernel in tall}
    return subject.with_edits(
        edits,
        "no built-in variable",
        lambda launch: _swapped(launch) if own_name(launch) in names else launch,
    )


def _swapped_builtins(tree: Tree, functions: Iterable[Function]) -> list[Edit]:
    return [
        Edit(node.start_byte, node.end_byte, SWAPPED[text])
        for function in functions
        for node, text in threads.builtins(tree, function.node)
        if text in SWAPPED
    ]


def _swapped(launch: Launch) -> Launch:
    return replace(launch, block=(launch.block[1], launch.block[0], *launch.block[2:]))


def _two_dimensional(launch: Launch) -> bool:
    x, y, _ = block(launch)
    return len(launch.block) > 1 and x is not None and y is not None and x > 1 and y > 1


def one_element(subject: Subject) -> Side | NotApplicable:
    """Give every thread one iteration of a grid-stride loop."""
    reason = "no grid-stride loop at the end of a kernel with a known block size"
    for function in subject.tree.functions():
        kernel_launches = launches(subject.side, function.name)
        extents = same_block(subject.side, function.name)
        if not function.kernel or extents is None or extents[1:] != (1, 1):
            continue
        ranges = Ranges(subject.tree, function, extents)
        loop = _grid_stride_loop(ranges)
        if loop is None:
            continue
        refusal = independent(subject.tree, function, loop, kernel_launches)
        if refusal is not None:
            reason = refusal
            continue
        limit = loop.child_by_field_name("condition").child_by_field_name("right")
        counts = {launch: plan_expression(subject, function, launch, limit) for launch in kernel_launches}
        if any(count is None for count in counts.values()) or any(
            len(launch.grid) > 1 for launch in kernel_launches
        ):
            reason = "the loop's limit cannot be stated in the plan"
            continue
        grids = {launch: (f"max(1, ceil_div({count}, {extents[0]}))",) for launch, count in counts.items()}
        changed = {
            launch: replace(launch, grid=grids.get(launch, launch.grid)) for launch in launches(subject.side)
        }
        return subject.with_edits(_once(loop), "", changed.__getitem__)
    return NotApplicable(reason)


def _grid_stride_loop(ranges: Ranges) -> Node | None:
    """The loop `for (int i = global index; i < n; i += stride)` at the end of a body of declarations."""
    statements = [child for child in ranges.function.body.named_children if child.type != "preproc_call"]
    if not statements or statements[-1].type != "for_statement":
        return None
    loop = statements[-1]
    parts = [loop.child_by_field_name(field) for field in ("initializer", "condition", "update")]
    if any(part is None for part in parts) or not only_values(ranges.tree, statements[:-1]):
        return None
    start, condition, update = parts
    declared = list(ranges.tree.declared_by(start)) if start.type == "declaration" else []
    if len(declared) != 1 or condition.type != "binary_expression" or condition.children[1].text != b"<":
        return None
    name = declared[0].name
    stepped = update.type == "assignment_expression" and update.children[1].type == "+="
    if not stepped or update.child_by_field_name("left").text != name:
        return None
    fits = (
        condition.child_by_field_name("left").text == name
        and declared[0].value is not None
        and threads.is_global_index(ranges, declared[0].value)
        and threads.is_grid_stride(ranges, update.child_by_field_name("right"))
    )
    return loop if fits else None


def _once(loop: Node) -> list[Edit]:
    """Turn the loop into a declaration and an `if`."""
    start, condition = loop.child_by_field_name("initializer"), loop.child_by_field_name("condition")
    body = loop.child_by_field_name("body")
    close = next(child for child in reversed(loop.children) if child.type == ")")
    return [
        Edit(loop.start_byte, start.start_byte),
        Edit(start.end_byte, condition.start_byte, b"\n    if ("),
        Edit(condition.end_byte, close.start_byte),
        Edit(body.start_byte, body.start_byte),
    ]


RULES: tuple[Rule, ...] = (
    Rule("one-element", "grid-stride-loop", "grid-stride loops", one_element),
    Rule("swap-axes", "coalesced-access", "coalesced access along threadIdx.x", swap_axes),
)
