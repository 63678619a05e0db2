"""How a kernel refers to its threads: built-in variables, global indices, and dependence on warps.

Shared by the rules that change the mapping of threads to work. Not covered: the rules themselves.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence

from kcurate.cuda_source.parse.syntax_tree import Declared, Function, Node, Tree, bare
from kcurate.cuda_source.semantics.builtin_effects import WARP
from kcurate.cuda_source.text.blanking import blank_literals, identifiers
from kcurate.deopt.rules.ranges import Ranges, changed_at

BUILTINS = (b"threadIdx", b"blockIdx", b"blockDim", b"gridDim")
# Code for which a thread's position in its warp or block matters.
_WARPS = re.compile(
    rb"\b(?:(?:%b)\w*|warpSize|wmma|nvcuda|volatile|asm|__asm__|cooperative_groups|laneid|cuda::)"
    % b"|".join(WARP)
)
_BLOCKS = re.compile(rb"\b(?:__shared__|__syncthreads\w*|__threadfence\w*|volatile)\b")


def reachable(tree: Tree, kernel: Function) -> tuple[Function, ...]:
    """A kernel and the functions of its file that it may call, directly or indirectly, judged by name."""
    functions, reached = tree.functions(), [kernel]
    for function in reached:
        names = identifiers(tree.text(function.node))
        reached += [
            function
            for function in functions
            if function.name in names and not function.kernel and function not in reached
        ]
    return tuple(reached)


def needs_warps(tree: Tree, functions: Sequence[Function]) -> bool:
    """Whether functions may depend on which threads form a warp; macros count as used by all."""
    return any(_WARPS.search(text) for text in _texts(tree, functions))


def needs_blocks(tree: Tree, kernel: Function, called: Sequence[Function]) -> bool:
    """Whether a kernel may depend on which threads form a block; `called`: the result of `reachable`."""
    if not all_in_sight(tree):
        return True
    texts = _texts(tree, called, last_barriers(tree, kernel))
    return any(_WARPS.search(text) or _BLOCKS.search(text) for text in texts)


def last_barriers(tree: Tree, function: Function) -> tuple[Node, ...]:
    """Barriers at the end of a function's body, which order nothing."""
    nodes: list[Node] = []
    for child in reversed(function.body.named_children):
        if child.type == "comment":
            continue
        if tree.text(child).replace(b" ", b"") != b"__syncthreads();":
            break
        nodes.append(child)
    return tuple(nodes)


def _texts(tree: Tree, functions: Sequence[Function], without: Sequence[Node] = ()) -> Iterator[bytes]:
    bare_source = blank_literals(tree.source)
    for node in without:
        blank = b" " * (node.end_byte - node.start_byte)
        bare_source = bare_source[: node.start_byte] + blank + bare_source[node.end_byte :]
    for function in functions:
        yield bare_source[function.node.start_byte : function.node.end_byte]
    for node in tree.nodes("preproc_def", "preproc_function_def"):
        yield tree.text(node)


def builtins(tree: Tree, within: Node | None = None) -> Iterator[tuple[Node, bytes]]:
    """Every `threadIdx.x` and the like: the node and its text without whitespace."""
    for node in tree.nodes("field_expression", within=within):
        base = node.child_by_field_name("argument")
        if base is not None and base.text in BUILTINS:
            yield node, b"".join(node.text.split())


def use_builtins(tree: Tree, functions: Sequence[Function]) -> bool:
    """Whether any of these functions uses a built-in variable."""
    return any(any(builtins(tree, function.node)) for function in functions)


def all_in_sight(tree: Tree) -> bool:
    """Whether `builtins` finds every use of a built-in variable: none as a whole struct, none in a macro."""
    words = re.findall(rb"\b(?:" + b"|".join(BUILTINS) + rb")\b", blank_literals(tree.source))
    return len(words) == sum(1 for _ in builtins(tree))


def in_macros(tree: Tree, name: bytes) -> bool:
    """Whether a macro body contains a name, so that some of its uses are invisible."""
    macros = tree.nodes("preproc_def", "preproc_function_def")
    return any(name in identifiers(tree.text(node)) for node in macros)


def resolved(tree: Tree, function: Function, node: Node) -> Node:
    """The expression that a name stands for, if it is set only once; without casts and parentheses."""
    for _ in range(8):
        node = bare(node)
        if node.type == "cast_expression":
            node = node.child_by_field_name("value")
            continue
        if node.type != "identifier":
            break
        variables = [variable for variable in tree.declared(function.body) if variable.name == node.text]
        value = only_value(tree, function, variables[0]) if len(variables) == 1 else None
        if value is None:
            break
        node = value
    return node


def only_value(tree: Tree, function: Function, variable: Declared) -> Node | None:
    """The expression of the only value that a local ever has in a kernel; None if it may have several.

    It is set at its declaration, or by a top-level statement of the body before every other use.
    """
    changes = changed_at(tree, function.body, variable.name)
    if variable.value is not None:
        return None if changes else variable.value
    if len(changes) != 1 or changes[0].type != "assignment_expression" or variable.sizes:
        return None
    (change,) = changes
    plain = change.children[1].type == "=" and change.parent.type == "expression_statement"
    if not plain or change.parent.parent != function.body or variable.declaration.parent != function.body:
        return None
    uses = (use for use in tree.uses(variable.name, within=function.body) if use != variable.node)
    first = next(uses, None)
    return change.child_by_field_name("right") if first == change.child_by_field_name("left") else None


def factors(tree: Tree, function: Function, node: Node, sign: bytes) -> list[Node]:
    """The operands of a sum or product in any order, with names resolved."""
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
    block = _first_of_block(ranges, node)
    return block is not None and _is_product(ranges, block, b"blockIdx.x")


def is_index_of_rows(ranges: Ranges, node: Node) -> bool:
    """Whether an expression is `(blockIdx.y * gridDim.x + blockIdx.x) * width + threadIdx.x`."""
    block = _first_of_block(ranges, node)
    if block is None:
        return False
    parts = factors(ranges.tree, ranges.function, block, b"*")
    sums = [part for part in parts if part.type == "binary_expression"]
    widths = [part for part in parts if part.type != "binary_expression"]
    if len(parts) != 2 or len(sums) != 1 or not is_width(ranges, widths[0]):
        return False
    number = factors(ranges.tree, ranges.function, sums[0], b"+")
    rows = [factors(ranges.tree, ranges.function, part, b"*") for part in number]
    texts = sorted(sorted(b"".join(index.text.split()) for index in row) for row in rows)
    return texts == [[b"blockIdx.x"], [b"blockIdx.y", b"gridDim.x"]]


def _first_of_block(ranges: Ranges, node: Node) -> Node | None:
    """The other term of a sum with `threadIdx.x`; None if the expression is not such a sum."""
    parts = factors(ranges.tree, ranges.function, node, b"+")
    texts = [b"".join(part.text.split()) for part in parts]
    if len(parts) != 2 or b"threadIdx.x" not in texts:
        return None
    return parts[1 - texts.index(b"threadIdx.x")]


def is_stride(ranges: Ranges, node: Node) -> bool:
    """Whether an expression is `gridDim.x * width`."""
    return _is_product(ranges, node, b"gridDim.x")


def _is_product(ranges: Ranges, node: Node, name: bytes) -> bool:
    parts = factors(ranges.tree, ranges.function, node, b"*")
    texts = [b"".join(part.text.split()) for part in parts]
    if name not in texts:
        return False
    others = [part for i, part in enumerate(parts) if i != texts.index(name)]
    if len(others) == 1:
        return is_width(ranges, others[0])
    product = math.prod(ranges.constant(part) or 0 for part in others)  # `32 * WARPS`
    return bool(others) and ranges.block is not None and product == ranges.block[0]
