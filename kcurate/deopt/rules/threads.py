"""How a kernel names its threads: the built-in variables, global indices, and what ties code to warps.

Shared by the rules that change the mapping of threads to work. Not covered: the rules themselves.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from kcurate.cuda_source.edit import Function, Node, Tree, bare
from kcurate.cuda_source.text import blank_literals, identifiers
from kcurate.deopt.rules.ranges import Ranges, changed_at

BUILTINS = (b"threadIdx", b"blockIdx", b"blockDim", b"gridDim")
# What makes a thread's place within its warp or block matter.
_WARPS = re.compile(
    rb"\b(?:__shfl\w*|__ballot\w*|__any\w*|__all\w*|__match\w*|__reduce\w*|__syncwarp|__activemask|warpSize|wmma|"
    rb"nvcuda|volatile|asm|__asm__|cooperative_groups|laneid|cuda::)"
)
_BLOCKS = re.compile(rb"\b(?:__shared__|__syncthreads\w*|__threadfence\w*|volatile)\b")


def reachable(tree: Tree, kernel: Function) -> tuple[Function, ...]:
    """A kernel and the functions of its file that it may call, directly or not (by name alone)."""
    known, found = tree.functions(), [kernel]
    for function in found:
        names = identifiers(tree.text(function.node))
        found += [one for one in known if one.name in names and not one.kernel and one not in found]
    return tuple(found)


def needs_warps(tree: Tree, functions: Sequence[Function]) -> bool:
    """Whether functions may depend on which threads form a warp; macros count as used by all."""
    return any(_WARPS.search(text) for text in _texts(tree, functions))


def needs_blocks(tree: Tree, functions: Sequence[Function]) -> bool:
    """Whether functions may depend on which threads form a block."""
    return any(_WARPS.search(text) or _BLOCKS.search(text) for text in _texts(tree, functions))


def _texts(tree: Tree, functions: Sequence[Function]) -> Iterator[bytes]:
    bare_source = blank_literals(tree.source)
    for function in functions:
        yield bare_source[function.node.start_byte : function.node.end_byte]
    for node in tree.nodes("preproc_def", "preproc_function_def"):
        yield tree.text(node)


def builtins(tree: Tree, within: Node | None = None) -> Iterator[tuple[Node, bytes]]:
    """Every `threadIdx.x` and the like: the node and its text without blanks."""
    for node in tree.nodes("field_expression", within=within):
        base = node.child_by_field_name("argument")
        if base is not None and base.text in BUILTINS:
            yield node, b"".join(node.text.split())


def all_in_sight(tree: Tree) -> bool:
    """Whether every mention of a built-in variable is one of `builtins` (none whole, none in a macro)."""
    words = re.findall(rb"\b(?:" + b"|".join(BUILTINS) + rb")\b", blank_literals(tree.source))
    return len(words) == sum(1 for _ in builtins(tree))


def resolved(tree: Tree, function: Function, node: Node) -> Node:
    """The expression behind a name that is set once and never changed; casts and parentheses gone."""
    for _ in range(8):
        node = bare(node)
        if node.type == "cast_expression":
            node = node.child_by_field_name("value")
            continue
        if node.type != "identifier":
            break
        found = [one for one in tree.declared(function.body) if one.name == node.text]
        if len(found) != 1 or found[0].value is None or changed_at(tree, function.body, node.text):
            break
        node = found[0].value
    return node


def factors(tree: Tree, function: Function, node: Node, sign: bytes) -> list[Node]:
    """The operands of a sum or product, written in any order, names looked up."""
    node = resolved(tree, function, node)
    if node.type == "binary_expression" and node.children[1].text == sign:
        sides = (node.child_by_field_name("left"), node.child_by_field_name("right"))
        return [part for side in sides for part in factors(tree, function, side, sign)]
    return [node]


def is_width(ranges: Ranges, node: Node) -> bool:
    """Whether an expression is the block's x extent: `blockDim.x`, or a constant equal to it in the plan."""
    if b"".join(node.text.split()) == b"blockDim.x":
        return True
    return ranges.block is not None and ranges.constant(node) == ranges.block[0]


def is_global_index(ranges: Ranges, node: Node) -> bool:
    """Whether an expression is `blockIdx.x * width + threadIdx.x`."""
    parts = factors(ranges.tree, ranges.function, node, b"+")
    if len(parts) != 2:
        return False
    texts = [b"".join(part.text.split()) for part in parts]
    if b"threadIdx.x" not in texts:
        return False
    return _is_product(ranges, parts[1 - texts.index(b"threadIdx.x")], b"blockIdx.x")


def is_stride(ranges: Ranges, node: Node) -> bool:
    """Whether an expression is `gridDim.x * width`."""
    return _is_product(ranges, node, b"gridDim.x")


def _is_product(ranges: Ranges, node: Node, name: bytes) -> bool:
    parts = factors(ranges.tree, ranges.function, node, b"*")
    texts = [b"".join(part.text.split()) for part in parts]
    if name not in texts:
        return False
    rest = [part for i, part in enumerate(parts) if i != texts.index(name)]
    if len(rest) == 1:
        return is_width(ranges, rest[0])
    known = [ranges.constant(part) for part in rest]  # `32 * WARPS`
    product = 1
    for value in known:
        product *= value or 0
    return bool(rest) and ranges.block is not None and product == ranges.block[0]
