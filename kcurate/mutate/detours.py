"""Values that take a detour: through a thread-local array, or through a second, equal variable of a loop.

An iteration that loads from a local array may be able to compute the stored value itself; and two variables
that a loop updates may always hold the same value. Example:

    for (int k = 0; k < 16; k++) w[(k + i) % 16] = x[i] * k;
    for (int k = 0; k < 16; k++) s += w[(k * 5 + i) % 16];    ->    s += x[i] * k;

Not covered: arrays in shared memory, which other threads write (`kcurate.mutate.replacements`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from kcurate.cuda_source.parse.syntax_tree import Declared, Node, Tree, ancestors, encloses
from kcurate.mutate.formulas import assigned_in, is_read_after
from kcurate.mutate.guards import (
    LOOPS,
    SWITCH,
    Guard,
    Part,
    has_side_effects,
    one_line,
    replace_guard,
    skip_guard,
)
from kcurate.mutate.numbers_in_scope import NEAREST, Scope, is_real

_TYPES = frozenset((b"float", b"double", b"int", b"unsigned", b"unsigned int", b"long long"))


@dataclass(frozen=True)
class _StoreAndLoads:
    """The only store into an array, and all loads from it."""

    store: Node
    loads: Sequence[Node]


def detours(tree: Tree) -> Iterator[Part]:
    """The candidate parts of all functions."""
    for function in tree.functions():
        scope = Scope(tree, function)
        for loop in tree.nodes(*LOOPS, within=function.body):
            yield from _equal_variables(scope, loop)
        for array in tree.declared(function.body):
            if array.sizes and array.type in _TYPES and not array.qualifiers & {b"__shared__", b"static"}:
                yield from _stored_expressions(scope, array)


def _stored_expressions(scope: Scope, array: Declared) -> Iterator[Part]:
    """A local array removed: each load is replaced by the expression that the only store writes."""
    tree, uses = scope.tree, _store_and_loads(scope, array)
    if uses is None or not any(_has_runtime_index(scope, use.parent) for use in tree.uses(array.name)):
        return
    value = uses.store.child_by_field_name("right")
    texts = [_text_at_load(scope, value, load) for load in uses.loads]
    if uses.loads and None not in texts:
        loads = [replace_guard(load, f"({array.type.decode()})({text})")
                 for load, text in zip(uses.loads, texts, strict=True)]  # fmt: skip
        label = f"the array {array.name.decode()}, where {one_line(tree, value)} serves"
        guards = (skip_guard(_outermost_loop_of(uses.store.parent)), *loads)
        yield Part(label, guards, 1, visible_in_counts=False, may_round=True)


def _has_runtime_index(scope: Scope, element: Node) -> bool:
    """Whether an index uses more than loop counters; otherwise a compiler can keep the array in registers."""
    index = next((node for node in element.children if node.type == "subscript_argument_list"), None)
    identifiers = scope.tree.nodes("identifier", within=index) if index is not None else ()
    variables = [scope.named(use) for use in identifiers]
    return any(number is None or number.declaration.parent.type not in LOOPS for number in variables)


def _store_and_loads(scope: Scope, array: Declared) -> _StoreAndLoads | None:
    """The store and loads of an array; None if it has several stores or its address is taken."""
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
        assigns = parent.type == "assignment_expression"
        is_set = assigns and parent.child_by_field_name("left").id == element.id
        (stores if is_set else loads).append(parent if is_set else element)
    if len(stores) != 1 or stores[0].parent.type != "expression_statement":
        return None
    is_plain = tree.text(stores[0].child_by_field_name("operator")) == b"="
    return _StoreAndLoads(stores[0], loads) if is_plain else None


def _text_at_load(scope: Scope, value: Node, load: Node) -> str | None:
    """The stored expression, rewritten for the load: its loop counter becomes the load's loop counter.

    None if the expression has side effects or uses variables that the load cannot see.
    """
    tree, text, copied_to = scope.tree, b"", value.start_byte
    if has_side_effects(tree, value) or encloses(value, load):
        return None
    counters = [number.name for number in scope.visible_from(load) if number.declaration.parent.type in LOOPS]
    visible = {number.name for number in scope.visible_from(load)}
    for use in tree.nodes("identifier", within=value):
        number, name = scope.named(use), tree.text(use)
        if number is not None and name not in visible:
            if number.declaration.parent.type not in LOOPS or not counters:
                return None
            name = counters[0]
        text += tree.source[copied_to : use.start_byte] + name
        copied_to = use.end_byte
    return (text + tree.source[copied_to : value.end_byte]).decode()


def _outermost_loop_of(statement: Node) -> Node:
    """The outermost loop that contains nothing but this statement; else the statement."""
    outermost = statement
    for parent in ancestors(statement):
        if parent.type in LOOPS:
            outermost = parent
        elif parent.type != "compound_statement" or len(parent.named_children) > 1:
            break
    return outermost


def _equal_variables(scope: Scope, loop: Node) -> Iterator[Part]:
    """A variable that a loop updates replaced, after the loop, by an earlier one that the loop updates."""
    tree, assigned = scope.tree, assigned_in(scope.tree, loop)
    visible = [number for number in scope.visible_from(loop) if number.name in assigned]
    for index, late in enumerate(visible if loop.parent.type == "compound_statement" else ()):
        statements = _assignments_to(tree, late.name, loop)
        if not statements or not is_read_after(tree, late.name, loop):
            continue
        for early in [number for number in visible[index + 1 :] if number.type == late.type][:NEAREST]:
            texts = late.name.decode(), early.name.decode()
            store = Guard(loop.end_byte, loop.end_byte, f" if ({SWITCH}) {texts[0]} = {texts[1]};", "")
            kind = "real" if is_real(late) else "whole"
            probe = Guard(loop.end_byte, loop.end_byte, f" kcu_probe_{kind}(@, {texts[0]}, {texts[1]});", "")
            label = f"the value of {texts[0]} in {one_line(tree, loop)}, where {texts[1]} serves"
            guards = (*map(skip_guard, statements), store)
            yield Part(label, guards, 1, may_round=is_real(late), probe=probe)


def _assignments_to(tree: Tree, name: bytes, loop: Node) -> list[Node]:
    """The statements of a loop that assign a variable; empty if a larger expression assigns it."""
    statements = []
    for node in tree.nodes("assignment_expression", "update_expression", within=loop):
        target = node.child_by_field_name("left") or node.child_by_field_name("argument")
        if target is not None and tree.text(target) == name:
            if node.parent.type != "expression_statement":
                return []
            statements.append(node.parent)
    return statements
