"""Guards around spans of a code: what they stand around does not run, or runs as something else.

One text has guards of many parts, so that a single compilation serves for all of them: on the emulator each
part has a bit that says whether it is left out. Not covered: which parts a side has
(`kcurate.mutate.ablations`).
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from kcurate.cuda_source.parse.syntax_tree import Declared, Node, Tree, ancestors
from kcurate.mutate.plan_ablations import shortened

# Whether a part is left out, for the emulator (`kcurate/abi.h`, which has bits for so many); `@`: its number.
SWITCH, MOST_PARTS = "KCU_LEFT_OUT(@)", 1023
LOOPS = ("for_statement", "while_statement", "do_statement", "for_range_loop")
ASSIGNS = ("declaration", "expression_statement")
_BARRIER = re.compile(rb"__sync|__threadfence|\bsync\s*\(|arrive|\bwait|fence|barrier|\basm\b")


@dataclass(frozen=True)
class Guard:
    """`before` and `after`, inserted around the bytes `start` to `end`; `@` is the part's number."""

    start: int
    end: int
    before: str
    after: str


@dataclass(frozen=True)
class Part:
    """The guards that leave out a part, the one that its line is told by first.

    `visible_in_counts`, `replaced`, `run`, `rounded`, `surplus`: as in `ablations.Ablation`. The lowest
    `rank` is tried first. `probe`: what tells on the emulator whether the part might be left out; else it is
    not tried. `spread`: the grid of `kernel` has so many times fewer blocks along its first axis.
    """

    what: str
    guards: tuple[Guard, ...]
    rank: int
    visible_in_counts: bool = True
    replaced: bool = False
    run: bool = False
    rounded: bool = False
    probe: Guard | None = None
    surplus: bool = False
    spread: int = 1
    kernel: str = ""


def insert_guards(code: str, parts: Sequence[Part], numbers: Collection[int]) -> str:
    """The code with the guards of the parts with these numbers; the first part is number 1."""
    source = code.encode()
    inserts: list[tuple[int, bool, int, int, str]] = []  # at one place inner ends first, outer starts first
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


def shown(tree: Tree, node: Node) -> str:
    """A node's text, on one line."""
    return shortened(tree.text(node).decode())


def skipped(node: Node) -> Guard:
    """A statement that does not run."""
    return Guard(node.start_byte, node.end_byte, f"{{ if (!{SWITCH}) ", " }")


def instead(node: Node, text: str) -> Guard:
    """Another expression in an expression's place."""
    return Guard(node.start_byte, node.end_byte, f"({SWITCH} ? {text} : (", "))")


def body_once(body: Node, before: str = "") -> Guard:
    """A loop's body, after which the loop ends; `before` runs first."""
    return Guard(body.start_byte, body.end_byte, f"{{ {before}", f" if ({SWITCH}) break; }}")


def cast(target: Declared, text: bytes) -> str:
    """Text as a value of a variable's type."""
    return f"({target.type.decode()})({text.decode()})"


def left_out(tree: Tree, statements: Sequence[Node], rank: int) -> Part:
    """Statements that do not run."""
    what = shown(tree, statements[0])
    if len(statements) > 1:
        what += f" to {shown(tree, statements[-1])}"
    visible = not all(is_barrier(tree, node) for node in statements)
    return Part(what, tuple(map(skipped, statements)), rank, visible, run=len(statements) > 1)


def is_barrier(tree: Tree, node: Node) -> bool:
    """Whether a statement waits for other threads, or orders accesses."""
    return node.type == "expression_statement" and _BARRIER.search(tree.text(node)) is not None


def can_be_skipped(node: Node) -> bool:
    """Whether a node is a statement that declares nothing."""
    return node.type in (*LOOPS, "if_statement", "expression_statement") and bool(node.named_children)


def is_costly(tree: Tree, node: Node) -> bool:
    """Whether a statement has a loop or calls a function: others cost little."""
    return not is_barrier(tree, node) and any(
        True for _ in tree.nodes(*LOOPS, "call_expression", within=node)
    )


def in_function(node: Node) -> bool:
    """Whether a node is inside a function."""
    return any(parent.type == "function_definition" for parent in ancestors(node))
