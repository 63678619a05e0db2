"""Earlier values in the place of later ones, as parts of a side that might be needless.

Parts that need each other go together where an earlier value (a variable's, a load's) takes a later one's
place, as a value or as an index: what comes between undoes itself. Counts show neither what a thread waits
for (a place that depends on what was loaded), nor banks and local memory. Not covered: calls and their
arguments (`kcurate.mutate.ablations`).
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
    instead,
    is_costly,
    shown,
    skipped,
)
from kcurate.mutate.numbers_in_scope import NEAREST, Scope, is_real

# Indexes that are computed, or looked up in a table.
_COMPUTED = ("binary_expression", "parenthesized_expression", "subscript_expression")
IN_ORDER = (b"blockIdx.x * blockDim.x + threadIdx.x", b"threadIdx.x")


def replacements(tree: Tree) -> Iterator[Part]:
    """Values, and earlier values of the same function in their place, of all functions in turn."""
    of_functions = [_replaced_in(Scope(tree, function)) for function in tree.functions()]
    return (part for parts in zip_longest(*of_functions) for part in parts if part is not None)


def _replaced_in(scope: Scope) -> Iterator[Part]:
    body = scope.function.body
    yield from _replaced_places(scope)
    yield from _places_that_wait(scope)
    for node in scope.tree.nodes(*ASSIGNS, within=body):
        yield from _replaced_values(scope, node)
        yield from _replaced_uses(scope, node)


def _replaced_values(scope: Scope, node: Node) -> Iterator[Part]:
    """An earlier value in place of one that a variable gets."""
    for target, value in assigned(scope, node):
        if value.type in ("identifier", "number_literal", "call_expression", "initializer_list"):
            continue  # one that is copied costs nothing; calls have parts of their own
        texts = [text for text, _ in scope.earlier(node, target)]
        if b"threadIdx" in scope.tree.text(value):  # of threads' own numbers only their order can be needless
            texts = [] if is_real(target) else list(IN_ORDER)
        counted = is_real(target) or not _reads_any(scope.tree, value, _changing(scope.tree, node))
        for text in texts:
            guards = (instead(value, cast(target, text)),)
            yield _replaced(scope.tree, target, text, value, guards, counted=counted)


def _replaced(
    tree: Tree, target: Declared, text: bytes, at: Node, guards: tuple[Guard, ...], *, counted: bool = True
) -> Part:
    name = target.name.decode()
    what = f"the value of {name} in {shown(tree, _statement(at))}, where {text.decode()} serves"
    return Part(what, guards, 2, counted, replaced=True)


def _changing(tree: Tree, node: Node) -> frozenset[bytes]:
    """The variables that the body of the loop around a node sets; counters change in its head."""
    loop = next((parent for parent in ancestors(node) if parent.type in LOOPS), None)
    body = loop.child_by_field_name("body") if loop is not None else None
    if body is None:
        return frozenset()
    targets = (one.child_by_field_name("left") for one in tree.nodes("assignment_expression", within=body))
    return frozenset(tree.text(target) for target in targets if target.type == "identifier")


def _reads_any(tree: Tree, node: Node, names: frozenset[bytes]) -> bool:
    return any(tree.text(use) in names for use in tree.nodes("identifier", within=node))


def _places_that_wait(scope: Scope) -> Iterator[Part]:
    """An index without a term that depends on what earlier rounds of its loop have set."""
    tree = scope.tree
    for index in tree.nodes("subscript_argument_list", within=scope.function.body):
        names = _changing(tree, index)
        for term in tree.nodes("binary_expression", within=index) if names else ():
            left, operator, right = (term.child_by_field_name(f) for f in ("left", "operator", "right"))
            if tree.text(operator) not in (b"+", b"-", b"^", b"|"):
                continue
            for waits, rest in ((left, right), (right, left)):
                if _reads_any(tree, waits, names):
                    what = f"the term {shown(tree, waits)} of the place {shown(tree, index)}"
                    yield Part(what, (instead(term, f"({tree.text(rest).decode()})"),), 2, counted=False)


def _statement(node: Node) -> Node:
    return next((parent for parent in ancestors(node) if parent.type in ASSIGNS), node)


def assigned(scope: Scope, node: Node) -> Iterator[tuple[Declared, Node]]:
    """The numbers that a statement declares or assigns, with the expressions of their values."""
    if node.type == "declaration":
        for number in scope.numbers:
            fixed = number.qualifiers & {b"constexpr", b"static", b"__shared__"}
            if number.declaration.id == node.id and number.value is not None and not fixed:
                yield number, number.value
        return
    assignment = node.named_children[0] if node.named_children else None
    if assignment is None or assignment.type != "assignment_expression":
        return
    left, right = (assignment.child_by_field_name(field) for field in ("left", "right"))
    target = scope.named(left) if left.type == "identifier" else None
    if target is not None and scope.tree.text(assignment.child_by_field_name("operator")) == b"=":
        yield target, right


def _replaced_uses(scope: Scope, node: Node) -> Iterator[Part]:
    """An earlier value where a statement reads a variable, and nothing of what ran between the two.

    Or nothing of what made the variable's own value, since both may have been made alike.
    """
    for use in _reads(scope.tree, node):
        target = scope.named(use)
        if target is None or target in scope.function.params:
            continue
        before = [child for child in node.parent.named_children if child.end_byte <= node.start_byte]
        before = [child for child in before if can_be_skipped(child)]
        makers = [child for child in before if any(True for _ in scope.tree.uses(target.name, within=child))]
        for text, source in scope.earlier(node, target, first=True):
            between = [child for child in before if source.declaration.end_byte <= child.start_byte]
            for idle in (between, makers) if makers != between else (between,):
                if any(is_costly(scope.tree, child) for child in idle):
                    guards = (instead(use, cast(target, text)), *map(skipped, idle))
                    yield _replaced(scope.tree, target, text, use, guards)


def _replaced_places(scope: Scope) -> Iterator[Part]:
    """A variable for an index that is computed from it, wherever the function has that index, and for all."""
    places: dict[bytes, list[Node]] = {}
    for node in scope.tree.nodes("subscript_argument_list", within=scope.function.body):
        index = node.named_children[0] if node.named_children else None
        if index is not None and index.type in _COMPUTED:
            places.setdefault(scope.tree.text(index), []).append(index)
    guards: list[Guard] = []
    for text, nodes in places.items():
        uses = scope.tree.nodes("identifier", within=nodes[0])
        uniform = scope.function.params if scope.function.kernel else ()
        named = [scope.named(use) for use in uses]
        names = dict.fromkeys(number.name for number in named if number is not None and number not in uniform)
        for name in [*names, *(IN_ORDER if b"threadIdx" in text else ())][:NEAREST]:
            of_name = tuple(instead(node, f"({name.decode()})") for node in nodes)
            what = f"the place {shown(scope.tree, nodes[0])}, where {name.decode()} serves"
            counted = not all(_on_chip(scope, node) for node in nodes)
            yield Part(what, of_name, 2, counted, replaced=True)
            guards += of_name if name == next(iter(names), None) else ()
    if len(places) > 1 and guards:
        yield Part("the order of all places", tuple(guards), 2, replaced=True)


def _on_chip(scope: Scope, index: Node) -> bool:
    """Whether an index is a place of an array that the function declares: in local or shared memory."""
    array = next(parent for parent in ancestors(index) if parent.type == "subscript_expression")
    while array.type == "subscript_expression":
        array = array.child_by_field_name("argument")
    name = scope.tree.text(array)
    return any(one.sizes and one.name == name for one in scope.tree.declared(scope.function.body))


def _reads(tree: Tree, node: Node) -> Iterator[Node]:
    """The variables that the value of a declaration or an assignment reads, each once, outside calls."""
    inner = node.named_children[-1] if node.named_children else None
    value = inner.child_by_field_name("value" if node.type == "declaration" else "right") if inner else None
    names: set[bytes] = set()
    for use in tree.nodes("identifier", within=value) if value is not None else ():
        if use.parent.type in ("argument_list", "update_expression", "pointer_expression", "call_expression"):
            continue
        if tree.text(use) not in names:
            names.add(tree.text(use))
            yield use
