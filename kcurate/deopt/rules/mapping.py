"""Rules on the mapping of threads to work: the plan changes with the code.

- swap-axes: `threadIdx.x` and `.y` swap roles, and so do `blockDim` and the plan's block. This renames the
  threads of a block; only their grouping into warps changes (CUDA C++ Programming Guide, "Thread Hierarchy"),
  so code that uses warps is refused, as are macros with built-ins.

Not covered: block sizes (`blocks`), 1-D blocks whose threads are laid out by division.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from kcurate.cuda_source.parse.syntax_tree import Function, Tree
from kcurate.cuda_source.rewrite.edits import Edit
from kcurate.deopt.rules import threads
from kcurate.deopt.rules.base import NotApplicable, Rule, Subject
from kcurate.deopt.rules.plans import block, launches, own_name
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
    two_d = [kernel for kernel in kernels if kernel.name not in flat and launches(subject.side, kernel.name)]
    touched = {function.node.id: function for kernel in two_d for function in threads.reachable(tree, kernel)}
    others = [
        function for kernel in kernels if kernel not in two_d for function in threads.reachable(tree, kernel)
    ]
    if not two_d:
        return NotApplicable("no kernel known to have two-dimensional blocks")
    if threads.depends_on_warps(tree, tuple(touched.values())) or not threads.all_builtins_visible(tree):
        return NotApplicable("the code may depend on which threads form a warp")
    if any(function.node.id in touched and any(threads.builtins(tree, function.node)) for function in others):
        return NotApplicable("a function with thread indices also runs in one-dimensional blocks")
    edits = _swapped_builtins(tree, touched.values())
    if not {b"threadIdx.x", b"threadIdx.y"} <= {edit.text for edit in edits}:
        return NotApplicable("the code does not use both axes")
    names = {kernel.name.decode("latin-1") for kernel in two_d}
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


RULES: tuple[Rule, ...] = (
    Rule("swap-axes", "coalesced-access", "coalesced access along threadIdx.x", swap_axes),
)
