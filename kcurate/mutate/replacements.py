"""Finds computations that could be replaced by a value that is already available.

Each is a candidate part; whether outputs stay correct without it is tested later. With

    int i = blockIdx.x * blockDim.x + threadIdx.x;
    float scaled = 2.0f * x[i];
    int node = i;
    for (int k = 0; k < 8; ++k) node = next[node + k];
    int hops = node - i;
    float result = scaled * w[i];
    out[next[i + n]] = result * hops;

the four generators yield among others

    _index_replacements        next[i + n]                ->  next[i]
    _loop_carried_index_terms  next[node + k]             ->  next[k]
    _value_replacements        result = scaled * w[i]     ->  result = scaled
    _read_replacements         hops = node - i            ->  hops = i - i, and the loop is skipped

`visible_in_counts` is false where the cost is not in counts of operations: stalls on dependent loads, bank
conflicts, local-memory traffic. Not covered: arguments in place of calls (`kcurate.mutate.ablations`).
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import zip_longest

from kcurate.cuda_source.parse.syntax_tree import Declared, Node, Tree, ancestors
from kcurate.mutate.guards import (
    ASSIGNS,
    LOOPS,
    Guard,
    Part,
    can_be_skipped,
    cast,
    is_costly,
    names_in,
    one_line,
    replace_guard,
    skip_guard,
)
from kcurate.mutate.numbers_in_scope import NEAREST, Scope, is_real

# Nodes of an index that is computed, or looked up in a table: a bare variable or constant costs nothing.
_COMPUTED_INDEX = ("binary_expression", "parenthesized_expression", "subscript_expression")
# The indexes with coalesced accesses, in the grid and in a block.
IN_ORDER = (b"blockIdx.x * blockDim.x + threadIdx.x", b"threadIdx.x")
# Tried after whole loops (0) and loop rounds (1), which cost more, and before branch conditions (3).
RANK = 2


def replacements(tree: Tree) -> Iterator[Part]:
    """The candidate parts of all functions, alternating between functions."""
    by_function = [_replacements_in(Scope(tree, function)) for function in tree.functions()]
    return (part for parts in zip_longest(*by_function) for part in parts if part is not None)


def _replacements_in(scope: Scope) -> Iterator[Part]:
    body = scope.function.body
    yield from _index_replacements(scope)
    yield from _loop_carried_index_terms(scope)
    for node in scope.tree.nodes(*ASSIGNS, within=body):
        yield from _value_replacements(scope, node)
        yield from _read_replacements(scope, node)


def _value_replacements(scope: Scope, node: Node) -> Iterator[Part]:
    """An earlier value instead of the expression that a statement assigns."""
    for target, value in assigned(scope, node):
        if value.type in ("identifier", "number_literal", "call_expression", "initializer_list"):
            continue  # a copy costs nothing; `ablations` removes calls
        texts = [text for text, _ in scope.earlier(node, target)]
        if b"threadIdx" in scope.tree.text(value):
            # Each thread needs its own index, so only another order of the threads is tried.
            texts = [] if is_real(target) else list(IN_ORDER)
        loop_carried = _reads_any(scope.tree, value, _set_in_loop_body(scope.tree, node))
        visible_in_counts = is_real(target) or not loop_carried
        for text in texts:
            guards = (replace_guard(value, cast(target, text)),)
            label = _describe_replacement(scope.tree, target, text, value)
            yield Part(label, guards, RANK, visible_in_counts, reuses_value=True)


def _describe_replacement(tree: Tree, target: Declared, text: bytes, node: Node) -> str:
    name = target.name.decode()
    return f"the value of {name} in {one_line(tree, _statement(node))}, where {text.decode()} serves"


def _set_in_loop_body(tree: Tree, node: Node) -> frozenset[bytes]:
    """The variables assigned in the body of the innermost loop around a node (not in the loop's header)."""
    loop = next((parent for parent in ancestors(node) if parent.type in LOOPS), None)
    body = loop.child_by_field_name("body") if loop is not None else None
    if body is None:
        return frozenset()
    assignments = tree.nodes("assignment_expression", within=body)
    targets = (assignment.child_by_field_name("left") for assignment in assignments)
    return frozenset(tree.text(target) for target in targets if target.type == "identifier")


def _reads_any(tree: Tree, node: Node, names: frozenset[bytes]) -> bool:
    return not names.isdisjoint(names_in(tree, node))


def _loop_carried_index_terms(scope: Scope) -> Iterator[Part]:
    """An index without a loop-carried term, which makes the load depend on an earlier iteration."""
    tree = scope.tree
    for index in tree.nodes("subscript_argument_list", within=scope.function.body):
        names = _set_in_loop_body(tree, index)
        for term in tree.nodes("binary_expression", within=index) if names else ():
            left, operator, right = (term.child_by_field_name(name) for name in ("left", "operator", "right"))
            if tree.text(operator) not in (b"+", b"-", b"^", b"|"):
                continue
            for carried, other_term in ((left, right), (right, left)):
                if _reads_any(tree, carried, names):
                    label = f"the term {one_line(tree, carried)} of the place {one_line(tree, index)}"
                    guard = replace_guard(term, f"({tree.text(other_term).decode()})")
                    yield Part(label, (guard,), RANK, visible_in_counts=False)


def _statement(node: Node) -> Node:
    return next((parent for parent in ancestors(node) if parent.type in ASSIGNS), node)


def assigned(scope: Scope, node: Node) -> Iterator[tuple[Declared, Node]]:
    """The numeric variables that a statement declares or assigns, each with the expression assigned to it."""
    if node.type == "declaration":
        for number in scope.numbers:
            is_static = number.qualifiers & {b"constexpr", b"static", b"__shared__"}
            if number.declaration.id == node.id and number.value is not None and not is_static:
                yield number, number.value
        return
    assignment = node.named_children[0] if node.named_children else None
    if assignment is None or assignment.type != "assignment_expression":
        return
    left, right = (assignment.child_by_field_name(field) for field in ("left", "right"))
    target = scope.named(left) if left.type == "identifier" else None
    if target is not None and scope.tree.text(assignment.child_by_field_name("operator")) == b"=":
        yield target, right


def _read_replacements(scope: Scope, node: Node) -> Iterator[Part]:
    """An earlier value where a statement reads a variable, without the costly statements in between.

    Two candidates: one skips all statements in between, one only those that use the variable, since the read
    may need the others.
    """
    for use in _first_reads(scope.tree, node):
        target = scope.named(use)
        if target is None or target in scope.function.params:
            continue
        earlier = (child for child in node.parent.named_children if child.end_byte <= node.start_byte)
        before = [child for child in earlier if can_be_skipped(child)]
        using = [child for child in before if any(True for _ in scope.tree.uses(target.name, within=child))]
        for text, source in scope.earlier(node, target, only_before=True):
            between = [child for child in before if source.declaration.end_byte <= child.start_byte]
            for unused in (between, using) if using != between else (between,):
                if any(is_costly(scope.tree, child) for child in unused):
                    guards = (replace_guard(use, cast(target, text)), *map(skip_guard, unused))
                    label = _describe_replacement(scope.tree, target, text, use)
                    yield Part(label, guards, RANK, reuses_value=True)


def _index_replacements(scope: Scope) -> Iterator[Part]:
    """A computed index replaced, in all its uses, by a variable in it; then all indexes at once."""
    by_text: dict[bytes, list[Node]] = {}
    for node in scope.tree.nodes("subscript_argument_list", within=scope.function.body):
        index = node.named_children[0] if node.named_children else None
        if index is not None and index.type in _COMPUTED_INDEX:
            by_text.setdefault(scope.tree.text(index), []).append(index)
    all_indexes: list[Guard] = []
    for text, nodes in by_text.items():
        uses = scope.tree.nodes("identifier", within=nodes[0])
        uniform = scope.function.params if scope.function.kernel else ()
        variables = [scope.named(use) for use in uses]
        names = dict.fromkeys(
            number.name for number in variables if number is not None and number not in uniform
        )
        for name in [*names, *(IN_ORDER if b"threadIdx" in text else ())][:NEAREST]:
            guards = tuple(replace_guard(node, f"({name.decode()})") for node in nodes)
            label = f"the place {one_line(scope.tree, nodes[0])}, where {name.decode()} serves"
            visible_in_counts = not all(_on_chip(scope, node) for node in nodes)
            yield Part(label, guards, RANK, visible_in_counts, reuses_value=True)
            all_indexes += guards if name == next(iter(names), None) else ()
    if len(by_text) > 1 and all_indexes:
        yield Part("the order of all places", tuple(all_indexes), RANK, reuses_value=True)


def _on_chip(scope: Scope, index: Node) -> bool:
    """Whether an index is into an array that the function declares: local or shared memory."""
    array = next(parent for parent in ancestors(index) if parent.type == "subscript_expression")
    while array.type == "subscript_expression":
        array = array.child_by_field_name("argument")
    name = scope.tree.text(array)
    return any(local.sizes and local.name == name for local in scope.tree.declared(scope.function.body))


def _first_reads(tree: Tree, node: Node) -> Iterator[Node]:
    """The first read of each variable in the value of a declaration or assignment, also inside calls."""
    target = node.named_children[-1] if node.named_children else None
    value = target.child_by_field_name("value" if node.type == "declaration" else "right") if target else None
    names: set[bytes] = set()
    for use in tree.nodes("identifier", within=value) if value is not None else ():
        if use.parent.type in ("update_expression", "pointer_expression", "call_expression"):
            continue
        if tree.text(use) not in names:
            names.add(tree.text(use))
            yield use
