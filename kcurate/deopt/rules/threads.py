"""How a kernel uses thread indices: built-in variables, global indices, and dependence on warps or blocks.

Shared by the rules that change the mapping of threads to work: `is_global_index` recognises the `i` of
`int first = blockIdx.x * blockDim.x; int i = first + threadIdx.x;`. Not covered: the rules themselves.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence

from kcurate.cuda_source.parse.syntax_tree import Declared, Function, Node, Tree, bare
from kcurate.cuda_source.semantics.builtin_effects import WARP
from kcurate.cuda_source.text.blanking import blank_literals, identifiers
from kcurate.deopt.rules.ranges import Ranges, changed_at

# Names and casts followed from an expression to its value.
MAX_INDIRECTIONS = 8
BUILTINS = (b"threadIdx", b"blockIdx", b"blockDim", b"gridDim")
# Code that may depend on which threads form a warp, or a block.
_WARPS = re.compile(
    rb"\b(?:(?:%b)\w*|warpSize|wmma|nvcuda|volatile|asm|__asm__|cooperative_groups|laneid|cuda::)"
    % b"|".join(WARP)
)
_BLOCKS = re.compile(rb"\b(?:__shared__|__syncthreads\w*|__threadfence\w*|volatile)\b")


def reachable(tree: Tree, kernel: Function) -> tuple[Function, ...]:
    """A kernel and the functions of its file that it may call, directly or indirectly, by name."""
    functions, called = tree.functions(), [kernel]
    for caller in called:
        names = identifiers(tree.text(caller.node))
        called += [
            function
            for function in functions
            if function.name in names and not function.kernel and function not in called
        ]
    return tuple(called)


def depends_on_warps(tree: Tree, functions: Sequence[Function]) -> bool:
    """Whether functions may depend on which threads form a warp; macros count as used by all."""
    return any(_WARPS.search(text) for text in _texts(tree, functions))


def depends_on_blocks(tree: Tree, kernel: Function, called: Sequence[Function]) -> bool:
    """Whether a kernel may depend on which threads form a block; `called`: the result of `reachable`."""
    if not all_builtins_visible(tree):
        return True
    texts = _texts(tree, called, trailing_barriers(tree, kernel))
    return any(_WARPS.search(text) or _BLOCKS.search(text) for text in texts)


def trailing_barriers(tree: Tree, function: Function) -> tuple[Node, ...]:
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


def any_uses_builtins(tree: Tree, functions: Sequence[Function]) -> bool:
    """Whether any of these functions uses a built-in variable."""
    return any(any(builtins(tree, function.node)) for function in functions)


def all_builtins_visible(tree: Tree) -> bool:
    """Whether `builtins` finds every use: no built-in is used as a whole struct or in a macro."""
    words = re.findall(rb"\b(?:" + b"|".join(BUILTINS) + rb")\b", blank_literals(tree.source))
    return len(words) == sum(1 for _ in builtins(tree))


def named_in_a_macro(tree: Tree, name: bytes) -> bool:
    """Whether a macro body contains a name, so that some of its uses are invisible."""
    macros = tree.nodes("preproc_def", "preproc_function_def")
    return any(name in identifiers(tree.text(node)) for node in macros)


def resolved(tree: Tree, function: Function, node: Node) -> Node:
    """The value of a name assigned once, without casts and parentheses; else the expression itself."""
    for _ in range(MAX_INDIRECTIONS):
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

    It is assigned at its declaration, or by a top-level statement of the body before every other use.
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


def operands(tree: Tree, function: Function, node: Node, sign: bytes) -> list[Node]:
    """The terms of a sum (`sign` is `+`) or factors of a product (`*`), in order, with names resolved."""
    node = resolved(tree, function, node)
    if node.type == "binary_expression" and node.children[1].text == sign:
        sides = (node.child_by_field_name("left"), node.child_by_field_name("right"))
        return [part for side in sides for part in operands(tree, function, side, sign)]
    return [node]


def is_block_width(ranges: Ranges, node: Node) -> bool:
    """Whether an expression is the block's x extent: `blockDim.x`, or a constant equal to it in the plan."""
    if b"".join(node.text.split()) == b"blockDim.x":
        return True
    return ranges.block is not None and ranges.constant(node) == ranges.block[0]


def is_global_index(ranges: Ranges, node: Node) -> bool:
    """Whether an expression is `blockIdx.x * blockDim.x + threadIdx.x`."""
    offset = _block_offset(ranges, node)
    return offset is not None and _is_product(ranges, offset, b"blockIdx.x")


def is_row_major_global_index(ranges: Ranges, node: Node) -> bool:
    """Whether an expression is `(blockIdx.y * gridDim.x + blockIdx.x) * blockDim.x + threadIdx.x`."""
    offset = _block_offset(ranges, node)
    if offset is None:
        return False
    parts = operands(ranges.tree, ranges.function, offset, b"*")
    sums = [part for part in parts if part.type == "binary_expression"]
    widths = [part for part in parts if part.type != "binary_expression"]
    if len(parts) != 2 or len(sums) != 1 or not is_block_width(ranges, widths[0]):
        return False
    terms = operands(ranges.tree, ranges.function, sums[0], b"+")
    products = [operands(ranges.tree, ranges.function, term, b"*") for term in terms]
    texts = sorted(sorted(b"".join(factor.text.split()) for factor in product) for product in products)
    return texts == [[b"blockIdx.x"], [b"blockIdx.y", b"gridDim.x"]]


def _block_offset(ranges: Ranges, node: Node) -> Node | None:
    """The other term of a sum with `threadIdx.x`; None if the expression is not such a sum."""
    parts = operands(ranges.tree, ranges.function, node, b"+")
    texts = [b"".join(part.text.split()) for part in parts]
    if len(parts) != 2 or b"threadIdx.x" not in texts:
        return None
    return parts[1 - texts.index(b"threadIdx.x")]


def is_grid_stride(ranges: Ranges, node: Node) -> bool:
    """Whether an expression is `gridDim.x * blockDim.x`."""
    return _is_product(ranges, node, b"gridDim.x")


def _is_product(ranges: Ranges, node: Node, name: bytes) -> bool:
    """Whether an expression is `name` times the block's x extent."""
    parts = operands(ranges.tree, ranges.function, node, b"*")
    texts = [b"".join(part.text.split()) for part in parts]
    if name not in texts:
        return False
    others = [part for i, part in enumerate(parts) if i != texts.index(name)]
    if len(others) == 1:
        return is_block_width(ranges, others[0])
    product = math.prod(ranges.constant(part) or 0 for part in others)  # `32 * WARPS`
    return bool(others) and ranges.block is not None and product == ranges.block[0]
