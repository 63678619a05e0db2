"""Fewer threads, as parts of a side that might be needless.

Threads that a later condition excludes leave at once; lanes that do nothing, or what other lanes do too, are
not launched, and the others take their places. Example, with an eighth of the blocks:

    if (threadIdx.x % 32 >= 4) return;             ->    (goes)
    int i = global / 32 * 4 + threadIdx.x % 32;    ->    int i = blockIdx.x * blockDim.x + threadIdx.x;

Not covered: smaller blocks and grids of the same code (`kcurate.mutate.plan_ablations`), threads that work
together: what they hand on tells whether they are needed (`kcurate.mutate.rounds`).
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from itertools import islice

from kcurate.cuda_source.parse.syntax_tree import Declared, Node, Tree, bare, encloses
from kcurate.mutate.formulas import CHANGES, set_in
from kcurate.mutate.guards import LOOPS, SWITCH, Guard, Part, cast, instead, is_costly, shown
from kcurate.mutate.numbers_in_scope import NEAREST, Scope, is_real
from kcurate.mutate.replacements import IN_ORDER

# How many lanes there may be for one that is needed.
_LANES = (2, 4, 8, 16, 32)
_TOGETHER = re.compile(rb"__shared__|__sync|__shfl|__ballot|__any|__all|__reduce|__match|\basm\b|cooperative")
_OF_THREADS = frozenset((b"threadIdx", b"blockIdx", b"blockDim", b"gridDim"))


def fewer_threads(tree: Tree) -> Iterator[Part]:
    """The candidates of all kernels."""
    for function in tree.functions():
        if function.kernel:
            scope = Scope(tree, function)
            yield from _early_exits(scope)
            if not _TOGETHER.search(tree.text(function.body)):
                yield from islice(_repeated(scope), NEAREST)
                yield from _idle_lanes(scope)


def _early_exits(scope: Scope) -> Iterator[Part]:
    """Threads that a condition of the kernel's block excludes leave once that can be known."""
    tree, body = scope.tree, scope.function.body
    set_later = set_in(tree, body)
    for node in body.named_children:
        condition = bare(node.child_by_field_name("condition")) if node.type == "if_statement" else None
        if (
            condition is None
            or node.child_by_field_name("alternative") is not None
            or _changes(tree, condition)
        ):
            continue
        names = _names(tree, condition) - _OF_THREADS
        used = [number for number in scope.visible_from(node) if number.name in names]
        if {number.name for number in used} != names or not names.isdisjoint(set_later):
            continue
        own = [number.declaration.end_byte for number in used if number not in scope.function.params]
        place = max(own, default=body.start_byte + 1)
        if any(place <= other.start_byte < node.start_byte and is_costly(tree, other)
               for other in body.named_children):  # fmt: skip
            leave = f" if ({SWITCH} && !({tree.text(condition).decode()})) return;"
            what = f"the work of the threads that {shown(tree, condition)} excludes"
            yield Part(what, (Guard(place, place, leave, ""),), 1, surplus=True)


def _repeated(scope: Scope) -> Iterator[Part]:
    """Neighbouring threads that divide their number by a constant, and one in their place."""
    tree = scope.tree
    for node in tree.nodes("binary_expression", within=scope.function.body):
        left, sign, right = (node.child_by_field_name(field) for field in ("left", "operator", "right"))
        number = tree.text(right).rstrip(b"uUlL")
        if tree.text(sign) not in (b"/", b">>") or not number.isdigit():
            continue
        lanes = int(number) if tree.text(sign) == b"/" else 1 << min(int(number), 6)
        if lanes in range(2, 33) and {b"threadIdx", b"blockIdx"} <= _origins(scope, left):
            what = f"{lanes} threads for each {shown(tree, node)}"
            yield Part(
                what,
                (instead(node, f"({tree.text(left).decode()})"),),
                1,
                surplus=True,
                spread=lanes,
                kernel=scope.function.name.decode(),
            )


def _idle_lanes(scope: Scope) -> Iterator[Part]:
    """Lanes that a condition on the place in the block excludes; the others take their places."""
    body = scope.function.body
    guards = [guard for node in body.named_children if (guard := _all_lanes(scope, node)) is not None]
    places = [number for number in scope.numbers if _is_place(scope, number)]
    if not guards or not places:
        return
    value, first = places[0].value, IN_ORDER[0].decode()
    for lanes in _LANES:
        for each in (1, lanes):
            place = instead(value, cast(places[0], f"({first}) * {each}".encode()))
            what = f"the idle lanes of {scope.function.name.decode()}, {lanes} for one that works"
            yield Part(
                what, (*guards, place), 1, surplus=True, spread=lanes, kernel=scope.function.name.decode()
            )


def _is_place(scope: Scope, number: Declared) -> bool:
    """Whether a variable is set once, from the thread's place in the grid."""
    if is_real(number) or number.value is None or number.declaration.parent.id != scope.function.body.id:
        return False
    return {b"threadIdx", b"blockIdx"} <= _origins(scope, number.value)


def _all_lanes(scope: Scope, node: Node) -> Guard | None:
    """What lets all lanes pass an `if` on the place in the block alone that leaves most of the work out."""
    tree = scope.tree
    if node.type != "if_statement" or node.child_by_field_name("alternative") is not None:
        return None
    condition, taken = bare(node.child_by_field_name("condition")), node.child_by_field_name("consequence")
    origins = _origins(scope, condition)
    if b"threadIdx" not in origins or origins - {b"threadIdx", b"blockDim"}:
        return None
    leaves = any(True for _ in tree.nodes("return_statement", within=taken))
    works = any(True for _ in tree.nodes(*LOOPS, "subscript_expression", within=taken))
    return instead(condition, "false" if leaves else "true") if leaves or works else None


def _origins(scope: Scope, node: Node) -> frozenset[bytes]:
    """The names that an expression reads, and those that the variables among them were set from."""
    found, left = set[bytes](), [node]
    while left:
        for use in scope.tree.nodes("identifier", within=left.pop()):
            number, name = scope.named(use), scope.tree.text(use)
            if number is None or number in scope.function.params or number.value is None:
                found.add(name)
            elif not encloses(number.declaration, use):
                left.append(number.value)
    return frozenset(found)


def _names(tree: Tree, node: Node) -> frozenset[bytes]:
    return frozenset(tree.text(use) for use in tree.nodes("identifier", within=node))


def _changes(tree: Tree, node: Node) -> bool:
    kinds: Collection[str] = (*CHANGES, "call_expression", "subscript_expression", "pointer_expression")
    return any(True for _ in tree.nodes(*kinds, within=node))
