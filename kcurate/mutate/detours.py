"""Values that take a detour: through an array of a thread's own, or computed twice in one loop.

What a round stores into an array may be what a round that reads from it computes by itself; and one of two
variables that a loop changes may hold what the other does. Example:

    for (int k = 0; k < 16; k++) w[(k + i) % 16] = x[i] * k;
    for (int k = 0; k < 16; k++) s += w[(k * 5 + i) % 16];    ->    s += x[i] * k;

Not covered: arrays in shared memory, whose values come from other threads (`kcurate.mutate.replacements`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from kcurate.cuda_source.parse.syntax_tree import Declared, Node, Tree, ancestors, encloses
from kcurate.mutate.formulas import CHANGES, is_read_after, set_in
from kcurate.mutate.guards import LOOPS, SWITCH, Guard, Part, instead, shown, skipped
from kcurate.mutate.numbers_in_scope import NEAREST, Scope, is_real

_TYPES = frozenset((b"float", b"double", b"int", b"unsigned", b"unsigned int", b"long long"))


@dataclass(frozen=True)
class _Uses:
    """The one store into an array, and its loads."""

    store: Node
    loads: Sequence[Node]


def detours(tree: Tree) -> Iterator[Part]:
    """The candidates of all functions."""
    for function in tree.functions():
        scope = Scope(tree, function)
        for loop in tree.nodes(*LOOPS, within=function.body):
            yield from _twins(scope, loop)
        for array in tree.declared(function.body):
            if array.sizes and array.type in _TYPES and not array.qualifiers & {b"__shared__", b"static"}:
                yield from _forwarded(scope, array)


def _forwarded(scope: Scope, array: Declared) -> Iterator[Part]:
    """The expression that is stored into an array in place of each of its loads."""
    tree, uses = scope.tree, _uses(scope, array)
    if uses is None or not any(_varies(scope, use.parent) for use in tree.uses(array.name)):
        return
    value = uses.store.child_by_field_name("right")
    texts = [_at(scope, value, load) for load in uses.loads]
    if uses.loads and None not in texts:
        loads = [instead(load, f"({array.type.decode()})({text})")
                 for load, text in zip(uses.loads, texts, strict=True)]  # fmt: skip
        what = f"the array {array.name.decode()}, where {shown(tree, value)} serves"
        guards = (skipped(_alone(uses.store.parent)), *loads)
        yield Part(what, guards, 1, visible_in_counts=False, rounded=True)


def _varies(scope: Scope, element: Node) -> bool:
    """Whether other names than loops' counters tell a place: else a compiler keeps an array in registers."""
    place = next((node for node in element.children if node.type == "subscript_argument_list"), None)
    used = scope.tree.nodes("identifier", within=place) if place is not None else ()
    named = [scope.named(use) for use in used]
    return any(number is None or number.declaration.parent.type not in LOOPS for number in named)


def _uses(scope: Scope, array: Declared) -> _Uses | None:
    """None where an array is stored into at several places, or used as a whole."""
    tree, stores, loads = scope.tree, list[Node](), list[Node]()
    for use in tree.uses(array.name, within=scope.function.body):
        if encloses(array.declaration, use):
            continue
        element = use.parent
        if element.type != "subscript_expression" or element.child_by_field_name("argument").id != use.id:
            return None
        parent = element.parent
        if parent.type in ("update_expression", "pointer_expression", "subscript_expression"):
            return None
        is_set = (
            parent.type == "assignment_expression" and parent.child_by_field_name("left").id == element.id
        )
        (stores if is_set else loads).append(parent if is_set else element)
    if len(stores) != 1 or stores[0].parent.type != "expression_statement":
        return None
    return _Uses(stores[0], loads) if tree.text(stores[0].child_by_field_name("operator")) == b"=" else None


def _at(scope: Scope, value: Node, load: Node) -> str | None:
    """An expression as of where a load is, whose loop's counter stands for that of the expression's loop."""
    tree, text, at = scope.tree, b"", value.start_byte
    if any(True for _ in tree.nodes(*CHANGES, "call_expression", within=value)) or encloses(value, load):
        return None
    counters = [number.name for number in scope.visible_from(load) if number.declaration.parent.type in LOOPS]
    visible = {number.name for number in scope.visible_from(load)}
    for use in tree.nodes("identifier", within=value):
        number, name = scope.named(use), tree.text(use)
        if number is not None and name not in visible:
            if number.declaration.parent.type not in LOOPS or not counters:
                return None
            name = counters[0]
        text += tree.source[at : use.start_byte] + name
        at = use.end_byte
    return (text + tree.source[at : value.end_byte]).decode()


def _alone(statement: Node) -> Node:
    """The outermost loop that does nothing but a statement."""
    found = statement
    for parent in ancestors(statement):
        if parent.type in LOOPS:
            found = parent
        elif parent.type != "compound_statement" or len(parent.named_children) > 1:
            break
    return found


def _twins(scope: Scope, loop: Node) -> Iterator[Part]:
    """An earlier variable that a loop changes too in place of one that is read after it."""
    tree, changed = scope.tree, set_in(scope.tree, loop)
    visible = [number for number in scope.visible_from(loop) if number.name in changed]
    for at, late in enumerate(visible if loop.parent.type == "compound_statement" else ()):
        statements = _assigning(tree, late.name, loop)
        if not statements or not is_read_after(tree, late.name, loop):
            continue
        for early in [number for number in visible[at + 1 :] if number.type == late.type][:NEAREST]:
            texts = late.name.decode(), early.name.decode()
            store = Guard(loop.end_byte, loop.end_byte, f" if ({SWITCH}) {texts[0]} = {texts[1]};", "")
            kind = "real" if is_real(late) else "whole"
            probe = Guard(loop.end_byte, loop.end_byte, f" kcu_probe_{kind}(@, {texts[0]}, {texts[1]});", "")
            what = f"the value of {texts[0]} in {shown(tree, loop)}, where {texts[1]} serves"
            guards = (*map(skipped, statements), store)
            yield Part(what, guards, 1, rounded=is_real(late), probe=probe)


def _assigning(tree: Tree, name: bytes, loop: Node) -> list[Node]:
    """The statements of a loop that set a variable; none where something else does."""
    found = []
    for node in tree.nodes("assignment_expression", "update_expression", within=loop):
        target = node.child_by_field_name("left") or node.child_by_field_name("argument")
        if target is not None and tree.text(target) == name:
            if node.parent.type != "expression_statement":
                return []
            found.append(node.parent)
    return found
