"""Superfluous threads, as parts of a side that might be needless.

Threads that a later condition excludes return early. Lanes that do nothing, or repeat what other lanes do,
are not launched: the grid shrinks, and the remaining threads are renumbered. Example, with an eighth of the
blocks:

    if (threadIdx.x % 32 >= 4) return;             ->    (removed)
    int i = global / 32 * 4 + threadIdx.x % 32;    ->    int i = blockIdx.x * blockDim.x + threadIdx.x;

Not covered: smaller blocks and grids of unchanged code (`kcurate.mutate.plan_ablations`), kernels whose
threads cooperate, by shared memory or shuffles (`kcurate.mutate.rounds`).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import islice

from kcurate.cuda_source.parse.syntax_tree import Declared, Node, Tree, bare, encloses
from kcurate.mutate.formulas import assigned_in
from kcurate.mutate.guards import (
    CHANGES,
    LOOPS,
    SWITCH,
    Guard,
    Part,
    cast,
    contains,
    is_costly,
    names_in,
    one_line,
    replace_guard,
)
from kcurate.mutate.numbers_in_scope import NEAREST, Scope, is_real
from kcurate.mutate.replacements import IN_ORDER

# How many lanes may be launched for each lane that works.
_LANES_PER_WORKER = (2, 4, 8, 16, 32)
_COOPERATES = re.compile(
    rb"__shared__|__sync|__shfl|__ballot|__any|__all|__reduce|__match|\basm\b|cooperative"
)
_THREAD_BUILTINS = frozenset((b"threadIdx", b"blockIdx", b"blockDim", b"gridDim"))


def fewer_threads(tree: Tree) -> Iterator[Part]:
    """The candidate parts of all kernels."""
    for function in tree.functions():
        if function.kernel:
            scope = Scope(tree, function)
            yield from _early_exits(scope)
            if not _COOPERATES.search(tree.text(function.body)):
                yield from islice(_repeated_work(scope), NEAREST)
                yield from _idle_lanes(scope)


def _early_exits(scope: Scope) -> Iterator[Part]:
    """Threads that an `if` at the kernel's top level excludes return as soon as its variables are known."""
    tree, body = scope.tree, scope.function.body
    set_later = assigned_in(tree, body)
    for node in body.named_children:
        condition = bare(node.child_by_field_name("condition")) if node.type == "if_statement" else None
        if (
            condition is None
            or node.child_by_field_name("alternative") is not None
            or _may_vary(tree, condition)
        ):
            continue
        names = names_in(tree, condition) - _THREAD_BUILTINS
        variables = [number for number in scope.visible_from(node) if number.name in names]
        if {number.name for number in variables} != names or not names.isdisjoint(set_later):
            continue
        declared_ends = [
            number.declaration.end_byte for number in variables if number not in scope.function.params
        ]
        insert_at = max(declared_ends, default=body.start_byte + 1)
        if any(insert_at <= statement.start_byte < node.start_byte and is_costly(tree, statement)
               for statement in body.named_children):  # fmt: skip
            leave = f" if ({SWITCH} && !({tree.text(condition).decode()})) return;"
            label = f"the work of the threads that {one_line(tree, condition)} excludes"
            yield Part(label, (Guard(insert_at, insert_at, leave, ""),), 1, at_bench_only=True)


def _repeated_work(scope: Scope) -> Iterator[Part]:
    """`i / 4` of a thread index: four threads do the same work, so one takes their place."""
    tree = scope.tree
    for node in tree.nodes("binary_expression", within=scope.function.body):
        left, operator, right = (node.child_by_field_name(field) for field in ("left", "operator", "right"))
        divisor = tree.text(right).rstrip(b"uUlL")
        if tree.text(operator) not in (b"/", b">>") or not divisor.isdigit():
            continue
        lanes = int(divisor) if tree.text(operator) == b"/" else 1 << min(int(divisor), 6)
        if lanes in range(2, 33) and {b"threadIdx", b"blockIdx"} <= _origins(scope, left):
            label = f"{lanes} threads for each {one_line(tree, node)}"
            yield Part(
                label,
                (replace_guard(node, f"({tree.text(left).decode()})"),),
                1,
                at_bench_only=True,
                grid_divisor=lanes,
                kernel=scope.function.name.decode(),
            )


def _idle_lanes(scope: Scope) -> Iterator[Part]:
    """Lanes that a condition on `threadIdx` excludes are not launched; the others are renumbered."""
    body = scope.function.body
    guards = [guard for node in body.named_children if (guard := _admit_all_lanes(scope, node)) is not None]
    thread_indexes = [number for number in scope.numbers if _is_thread_index(scope, number)]
    if not guards or not thread_indexes:
        return
    value, global_index = thread_indexes[0].value, IN_ORDER[0].decode()
    for lanes in _LANES_PER_WORKER:
        for stride in (1, lanes):
            index_guard = replace_guard(
                value, cast(thread_indexes[0], f"({global_index}) * {stride}".encode())
            )
            label = f"the idle lanes of {scope.function.name.decode()}, {lanes} for one that works"
            yield Part(
                label,
                (*guards, index_guard),
                1,
                at_bench_only=True,
                grid_divisor=lanes,
                kernel=scope.function.name.decode(),
            )


def _is_thread_index(scope: Scope, number: Declared) -> bool:
    """Whether a variable is a thread index: initialised from both `threadIdx` and `blockIdx`."""
    if is_real(number) or number.value is None or number.declaration.parent.id != scope.function.body.id:
        return False
    return {b"threadIdx", b"blockIdx"} <= _origins(scope, number.value)


def _admit_all_lanes(scope: Scope, node: Node) -> Guard | None:
    """A guard that lets all lanes pass an `if` on `threadIdx` alone; None if `node` is no such `if`."""
    tree = scope.tree
    if node.type != "if_statement" or node.child_by_field_name("alternative") is not None:
        return None
    condition, consequence = (
        bare(node.child_by_field_name("condition")),
        node.child_by_field_name("consequence"),
    )
    origins = _origins(scope, condition)
    if b"threadIdx" not in origins or origins - {b"threadIdx", b"blockDim"}:
        return None
    leaves = contains(tree, consequence, "return_statement")
    works = contains(tree, consequence, *LOOPS, "subscript_expression")
    return replace_guard(condition, "false" if leaves else "true") if leaves or works else None


def _origins(scope: Scope, node: Node) -> frozenset[bytes]:
    """The names that an expression depends on, with variables resolved through their initialisers."""
    names, pending = set[bytes](), [node]
    while pending:
        for use in scope.tree.nodes("identifier", within=pending.pop()):
            number, name = scope.named(use), scope.tree.text(use)
            if number is None or number in scope.function.params or number.value is None:
                names.add(name)
            elif not encloses(number.declaration, use):
                pending.append(number.value)
    return frozenset(names)


def _may_vary(tree: Tree, node: Node) -> bool:
    """Whether evaluating a condition earlier could give another result: it loads, calls or assigns."""
    return contains(tree, node, *CHANGES, "call_expression", "subscript_expression", "pointer_expression")
