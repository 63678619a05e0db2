"""Looks up PTX instructions in `kcurate.ptx.rows`, for the static check and the emulator.

Not covered: splitting text into statements (`kcurate.ptx.parse`), writing C++ (the emulator).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache

from kcurate.ptx import rows
from kcurate.ptx.parse import Instruction


@dataclass(frozen=True)
class Operand:
    """One operand of a form.

    `shape` is `scalar`, `vector`, `address`, `tensor` (a map's address and coordinates) or `pair` (`d|p`,
    where `p` is a predicate); `type` is a PTX type, the name of a captured modifier, or empty.
    """

    name: str
    shape: str
    type: str
    optional: bool


@dataclass(frozen=True)
class Form:
    """One row of the table; `pattern` matches the modifiers with their dots."""

    opcode: str
    text: str
    pattern: re.Pattern[str]
    operands: tuple[Operand, ...]
    run: str


@dataclass(frozen=True)
class Meaning:
    """A form, and the modifiers that an instruction chose in it (empty if an optional one is missing)."""

    form: Form
    chosen: Mapping[str, str]


def find(instruction: Instruction) -> Meaning | None:
    """The form of an instruction in the table; None: the emulator does not have it."""
    opcode, _, modifiers = instruction.opcode.partition(".")
    shapes = tuple(map(_shape, instruction.operands))
    if "L2::cache_hint" in modifiers.split("."):
        shapes = shapes[:-1]  # the policy, which has no effect
    for form in forms().get(opcode, ()):
        match = form.pattern.fullmatch(f".{modifiers}" if modifiers else "")
        if match and _fits(shapes, form.operands):
            return Meaning(form, {name: value or "" for name, value in match.groupdict().items()})
    return None


def _fits(shapes: tuple[str, ...], operands: tuple[Operand, ...]) -> bool:
    least = sum(not operand.optional for operand in operands)
    expected = tuple(operand.shape for operand in operands)
    return least <= len(shapes) <= len(expected) and shapes == expected[: len(shapes)]


def _shape(operand: str) -> str:
    shapes = {"{": "vector", "[": "tensor" if "{" in operand else "address"}
    return shapes.get(operand[0]) or ("pair" if "|" in operand else "scalar")


@cache
def forms() -> Mapping[str, tuple[Form, ...]]:
    """Every form that the emulator runs, by opcode."""
    table: dict[str, tuple[Form, ...]] = {}
    for line in _CONTINUED.sub(" ", rows.EMULATED.strip()).splitlines():
        head, operands, run = (part.strip() for part in _COLUMN.split(line, maxsplit=2))
        opcode, *modifiers = head.split()
        pattern = re.compile("".join(map(_pattern, modifiers)))
        form = Form(opcode, head, pattern, tuple(map(_operand, operands.split())), run)
        table[opcode] = (*table.get(opcode, ()), form)
    return table


@cache
def allowed() -> frozenset[str]:
    """The opcodes that inline assembly may use, without modifiers."""
    return frozenset(forms()) | frozenset(rows.NOT_EMULATED.split())


_CONTINUED = re.compile(r"\n {4}")
_COLUMN = re.compile(r"\s\|(?:\s|$)")
_MODIFIER = re.compile(r"(?:(?P<name>[A-Z])=)?(?P<open>[\[(]?)(?P<choices>[^\])*]+)[\])]?(?P<many>\*?)")


def _pattern(modifier: str) -> str:
    """One modifier of a form as a regular expression, with its dot."""
    match = _MODIFIER.fullmatch(modifier)
    assert match is not None, modifier
    choices = [
        choice for part in match["choices"].split(",") for choice in rows.SETS.get(part[1:], part).split(",")
    ]
    either = "|".join(re.escape(choice) for choice in sorted(choices, key=len, reverse=True))
    named = rf"(?:\.(?P<{match['name']}>{either}))" if match["name"] else rf"(?:\.(?:{either}))"
    return named + ("*" if match["many"] else "?" if match["open"] == "[" else "")


def _operand(text: str) -> Operand:
    name, _, type_ = text.strip("{}[]?").removesuffix("|p").removesuffix(",{c").partition(":")
    return Operand(name, _shape(text), type_, text.endswith("?"))
