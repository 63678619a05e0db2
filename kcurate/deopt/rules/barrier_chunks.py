"""Rule on work distribution for cooperating threads: several elements per thread between barriers.

- chunks-between-barriers: the code between barriers becomes the body of a loop over `item`, with
  `threadIdx.x * 8 + item` in place of `threadIdx.x` and an eighth of the threads, as in `chunks`.

Between two barriers the threads of a block run in any order, so one thread may do the work of several in
turn. A barrier is reached by all threads of a block or by none (CUDA C++ Programming Guide, "Synchronization
Functions"), so statements around one (`if`, `for`) are uniform and stay outside. Required: barriers are plain
statements of the kernel; no fence, volatile, lock or warp function, no `return`; no per-thread value is live
across a barrier, except values computed only from indices and parameters, which each part recomputes. Heads
of loops around barriers use no per-thread value and read no memory.

Not covered: kernels whose threads keep sums or loaded values across barriers, barriers inside functions.
"""

from __future__ import annotations

import re

from kcurate.cuda_source.parse.syntax_tree import Function, Tree
from kcurate.cuda_source.rewrite.edits import Edit
from kcurate.cuda_source.text.blanking import blank_literals
from kcurate.deopt.rules.barrier_parts import Parts, Refused, barriers
from kcurate.deopt.rules.base import NotApplicable, Rule, Subject
from kcurate.deopt.rules.chunks import WARP, chunk, narrowed, parameters_change, waits
from kcurate.deopt.rules.plans import same_block
from kcurate.deopt.rules.ranges import Ranges
from kcurate.deopt.rules.threads import (
    all_builtins_visible,
    any_uses_builtins,
    depends_on_warps,
    reachable,
    trailing_barriers,
)
from kcurate.records import Side

_ORDERS = re.compile(rb"\b__syncthreads\w*|\b__threadfence\w*")
_BLOCK_WIDE = (b"__shared__", b"__syncthreads", b"__threadfence")
_JUMPS = ("return_statement", "goto_statement", "labeled_statement", "lambda_expression")


def between_barriers(subject: Subject) -> Side | NotApplicable:
    """Give every thread a few neighbouring elements between barriers."""
    tree = subject.tree
    reason = "no kernel with barriers and a known block size"
    edits: list[Edit] = []
    sizes: dict[str, int] = {}
    for function in tree.functions():
        extents = same_block(subject.side, function.name)
        within = len(barriers(tree, function.body)) - len(trailing_barriers(tree, function))
        if not function.kernel or not extents or not within:
            continue
        size = chunk(extents) or _of_few(extents)
        try:
            if size is None:
                raise Refused("blocks are too small to divide")
            _check(tree, function)
            parts = Parts(Ranges(tree, function, extents), size, tree.unused_name(b"item"))
            parts.block(function.body.named_children)
        except Refused as refused:
            reason = str(refused)
        else:
            edits += parts.edits
            sizes[function.name.decode("latin-1")] = size
    return narrowed(subject, edits, sizes, reason)


def _of_few(extents: tuple[int, int, int]) -> int | None:
    """Elements per thread for blocks of half a warp to one warp."""
    x, y, z = extents
    few = WARP // 2 <= x * y * z <= WARP
    return next((size for size in (4, 2) if few and x % size == 0 and x > size), None)


def _check(tree: Tree, function: Function) -> None:
    """Check the requirements on the whole kernel.

    Raises:
        Refused: a requirement is not met.
    """
    called, body = reachable(tree, function), function.body
    start, end = body.start_byte, body.end_byte
    orders = _ORDERS.findall(blank_literals(tree.source)[start:end])
    macros = b"".join(tree.text(node) for node in tree.nodes("preproc_def", "preproc_function_def"))
    if function.node.has_error or any(tree.nodes(*_JUMPS, within=body)):
        raise Refused("the code does not parse, or uses return or goto")
    if depends_on_warps(tree, called) or any(
        word in callee.node.text for callee in called[1:] for word in _BLOCK_WIDE
    ):
        raise Refused("the code may depend on which threads form a warp")
    if _ORDERS.search(macros) or len(orders) != len(barriers(tree, body)):
        raise Refused("memory is ordered by more than barriers")
    if not all_builtins_visible(tree) or any_uses_builtins(tree, called[1:]):
        raise Refused("a macro or a called function uses built-in variables")
    if any(waits(tree, callee) for callee in called):
        raise Refused("a thread may wait for another")
    keeps_state = any(local.reference or b"static" in local.qualifiers for local in tree.declared(body))
    if keeps_state or parameters_change(tree, function):
        raise Refused("one element's work may change state that the next one's would see")


RULES: tuple[Rule, ...] = (
    Rule(
        "chunks-between-barriers",
        "coalesced-access",
        "one thread per element between barriers",
        between_barriers,
    ),
)
