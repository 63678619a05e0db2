"""Guards: text inserted around spans of code, so that a span can be switched off or replaced at run time.

One text contains the guards of many parts, so that they are compiled once; on the emulator a bit per part
says whether it is left out. Example: `skip_guard` of part 7 turns `a();` into

    { if (!KCU_LEFT_OUT(7)) a(); }

Not covered: which parts a side has (`kcurate.mutate.ablations`).
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from kcurate.cuda_source.parse.syntax_tree import Declared, Node, Tree, ancestors
from kcurate.mutate.plan_ablations import shortened

# The emulator's test of whether a part is left out, where `@` becomes its number, and how many bits
# `kcurate/abi.h` has for that.
SWITCH, MOST_PARTS = "KCU_LEFT_OUT(@)", 1023
LOOPS = ("for_statement", "while_statement", "do_statement", "for_range_loop")
CHANGES = ("assignment_expression", "update_expression", "lambda_expression")
ASSIGNS = ("declaration", "expression_statement")
_BARRIER = re.compile(rb"__sync|__threadfence|\bsync\s*\(|arrive|\bwait|fence|barrier|\basm\b")


@dataclass(frozen=True)
class Guard:
    """Text to insert before and after the bytes `start` to `end`; `@` in it becomes the part's number."""

    start: int
    end: int
    before: str
    after: str


@dataclass(frozen=True)
class Part:
    """A part of the code and the guards that remove it; the first guard tells its line.

    `label`, `visible_in_counts`, `reuses_value`, `is_run`, `may_round`, `at_bench_only`: as in
    `ablations.Ablation`. `rank`: lower is tried earlier. `probe`: code whose check must pass on the emulator
    before the part is tried. `grid_divisor`: without the part, `kernel` is launched with this many times
    fewer blocks along x.
    """

    label: str
    guards: tuple[Guard, ...]
    rank: int
    visible_in_counts: bool = True
    reuses_value: bool = False
    is_run: bool = False
    may_round: bool = False
    probe: Guard | None = None
    at_bench_only: bool = False
    grid_divisor: int = 1
    kernel: str = ""


def insert_guards(code: str, parts: Sequence[Part], numbers: Collection[int]) -> str:
    """The code with the guards of these parts inserted; `parts[0]` is number 1."""
    source = code.encode()
    inserts: list[tuple[int, bool, int, int, str]] = []  # at one offset: inner ends first, outer starts first
    for number in sorted(numbers):
        for guard in parts[number - 1].guards:
            before, after = (text.replace("@", str(number)) for text in (guard.before, guard.after))
            inserts.append((guard.start, True, -guard.end, number, before))
            inserts.append((guard.end, False, -guard.start, -number, after))
    pieces, at = [], 0
    for place, *_, text in sorted(inserts):
        pieces += [source[at:place], text.encode()]
        at = place
    return b"".join([*pieces, source[at:]]).decode()


def one_line(tree: Tree, node: Node) -> str:
    """A node's text on one line, shortened."""
    return shortened(tree.text(node).decode())


def skip_guard(node: Node) -> Guard:
    """A guard that skips a statement."""
    return Guard(node.start_byte, node.end_byte, f"{{ if (!{SWITCH}) ", " }")


def replace_guard(node: Node, text: str) -> Guard:
    """A guard that evaluates `text` instead of an expression."""
    return Guard(node.start_byte, node.end_byte, f"({SWITCH} ? {text} : (", "))")


def run_once_guard(body: Node, before: str = "") -> Guard:
    """A guard that ends a loop after one iteration; `before` is inserted at the start of its body."""
    return Guard(body.start_byte, body.end_byte, f"{{ {before}", f" if ({SWITCH}) break; }}")


def cast(target: Declared, text: bytes) -> str:
    """An expression, cast to a variable's type."""
    return f"({target.type.decode()})({text.decode()})"


def part_without(tree: Tree, statements: Sequence[Node], rank: int) -> Part:
    """The part that skips these statements."""
    label = one_line(tree, statements[0])
    if len(statements) > 1:
        label += f" to {one_line(tree, statements[-1])}"
    visible = not all(is_barrier(tree, node) for node in statements)
    return Part(label, tuple(map(skip_guard, statements)), rank, visible, is_run=len(statements) > 1)


def is_barrier(tree: Tree, node: Node) -> bool:
    """Whether a statement is a barrier, a fence, a wait or inline assembly."""
    return node.type == "expression_statement" and _BARRIER.search(tree.text(node)) is not None


def can_be_skipped(node: Node) -> bool:
    """Whether a node is a statement that declares nothing."""
    return node.type in (*LOOPS, "if_statement", "expression_statement") and bool(node.named_children)


def is_costly(tree: Tree, node: Node) -> bool:
    """Whether a statement contains a loop or a call and is no barrier; others cost little."""
    return not is_barrier(tree, node) and contains(tree, node, *LOOPS, "call_expression")


def contains(tree: Tree, node: Node, *kinds: str) -> bool:
    """Whether a node or one inside it is of one of these kinds."""
    return next(tree.nodes(*kinds, within=node), None) is not None


def has_side_effects(tree: Tree, node: Node) -> bool:
    """Whether an expression assigns something or calls a function."""
    return contains(tree, node, *CHANGES, "call_expression")


def names_in(tree: Tree, node: Node) -> frozenset[bytes]:
    """The identifiers in a node."""
    return frozenset(tree.text(use) for use in tree.nodes("identifier", within=node))


def is_in_function(node: Node) -> bool:
    """Whether a node is inside a function."""
    return any(parent.type == "function_definition" for parent in ancestors(node))
