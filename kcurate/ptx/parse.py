"""Splits the text of one asm statement into PTX instructions, labels and register declarations.

The grammar is narrower than PTX's on purpose: ptxas interprets accepted text in the same way in any context.
Every statement must end inside the text, since ptxas would join an unfinished one with the next asm statement
(`asm("bra"); asm("L;");`). Not covered: what is allowed (`kcurate.judge.checks.assembly`), the meaning of
instructions (`kcurate.ptx.rows`). Source: PTX ISA 9.0, "Syntax".
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

# The numbers of the blocks around a statement, outermost first.
Scope = tuple[int, ...]

_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)
_BLANK = re.compile(r"\s*")
_NAME = r"(?:%?[A-Za-z_$][\w$]*)"
_LABEL = re.compile(rf"({_NAME})\s*:(?!:)")
_GUARD = re.compile(rf"@\s*(!?)\s*({_NAME}|%\d+)\s*")
_OPCODE = re.compile(r"[A-Za-z_]\w*(?:\s*\.\s*[A-Za-z0-9_]+(?:::[A-Za-z0-9_]+)*)*")
_REGISTERS = re.compile(r"\.reg\s*(?:\.v[248]\s*)?\.(\w+)\s+(.+)", re.DOTALL)
_DECLARED = re.compile(rf"({_NAME})(?:\s*<\s*(\d+)\s*>)?")
_NUMBER = (
    r"-?(?:0[fF][0-9A-Fa-f]{8}|0[dD][0-9A-Fa-f]{16}|0[xX][0-9A-Fa-f]+U?|\d+\.\d*(?:[eE][-+]?\d+)?|\d+U?)"
)
_ATOM = rf"(?:[!-]?(?:{_NAME}(?:\.[xyzw])?|%\d+)|{_NUMBER})"
_VECTOR = rf"\{{\s*{_ATOM}\s*(?:,\s*{_ATOM}\s*)*\}}"
_PLACE = rf"(?:{_NAME}|%\d+|{_NUMBER})(?:\s*[-+]\s*(?:%\d+|{_NUMBER}))?"
_ADDRESS = rf"\[\s*{_PLACE}\s*(?:,\s*(?:{_VECTOR}|{_ATOM})\s*)*\]"
_OPERAND = re.compile(rf"(?:{_ADDRESS}|{_VECTOR}|{_ATOM}(?:\s*\|\s*{_ATOM})?)\s*")
# More registers than a thread can have.
MAX_REGISTERS = 4096


class PtxError(Exception):
    """Text is not a sequence of complete PTX statements; the message is for the writer of the code."""


@dataclass(frozen=True)
class Label:
    """`name:`, a target of branches in its block and in nested blocks."""

    name: str
    scope: Scope


@dataclass(frozen=True)
class Registers:
    """`.reg .type names;`"""

    type: str
    names: tuple[str, ...]
    scope: Scope


@dataclass(frozen=True)
class Instruction:
    """One instruction. `guard` is its predicate (`p`, `!p`) or empty; operands are without blanks."""

    opcode: str
    operands: tuple[str, ...]
    guard: str
    scope: Scope

    @property
    def name(self) -> str:
        """The opcode without modifiers: `mma` of `mma.sync.aligned...`."""
        return self.opcode.partition(".")[0]


Statement = Label | Registers | Instruction


def parse(text: str) -> tuple[Statement, ...]:
    """The statements of an asm text (escape sequences decoded; `%%` and `%` both start a register).

    Raises:
        PtxError: a statement is unfinished, or has a form that is not allowed here.
    """
    text = _COMMENT.sub(" ", text).replace("%%", "%")
    statements: list[Statement] = []
    scope: Scope = ()
    blocks = 0
    at = _blank(text, 0)
    while at < len(text):
        if text[at] == "{":
            blocks += 1
            scope = (*scope, blocks)
            at += 1
        elif text[at] == "}":
            if not scope:
                raise PtxError("a closing brace without an opening one")
            scope = scope[:-1]
            at += 1
        elif label := _LABEL.match(text, at):
            statements.append(Label(label[1], scope))
            at = label.end()
        else:
            end = text.find(";", at)
            if end < 0:
                raise PtxError(f"{_shown(text[at:])} has no semicolon")
            statements.append(_statement(text[at:end], scope))
            at = end + 1
        at = _blank(text, at)
    if scope:
        raise PtxError("a brace that is not closed")
    return tuple(statements)


def _blank(text: str, at: int) -> int:
    match = _BLANK.match(text, at)
    return match.end() if match else at


def _shown(text: str) -> str:
    return " ".join(text.split())[:60]


def _statement(text: str, scope: Scope) -> Statement:
    if text.startswith("."):
        return _registers(text, scope)
    guard = _GUARD.match(text)
    unguarded = text[guard.end() :] if guard else text
    opcode = _OPCODE.match(unguarded)
    if opcode is None:
        raise PtxError(f"{_shown(text)} is not an instruction")
    operands = tuple(_operands(unguarded[opcode.end() :], text))
    return Instruction("".join(opcode[0].split()), operands, f"{guard[1]}{guard[2]}" if guard else "", scope)


def _operands(text: str, whole: str) -> Iterator[str]:
    at = _blank(text, 0)
    while at < len(text):
        match = _OPERAND.match(text, at)
        end = match.end() if match else at
        if match is None or (end < len(text) and text[end] != ","):
            raise PtxError(f"an operand that is not allowed in {_shown(whole)}")
        yield "".join(match[0].split())
        if end == len(text):
            return
        at = _blank(text, end + 1)
        if at == len(text):
            raise PtxError(f"an operand is missing in {_shown(whole)}")


def _registers(text: str, scope: Scope) -> Registers:
    match = _REGISTERS.match(text)
    if match is None:
        raise PtxError(f"the directive {_shown(text)}")
    names: list[str] = []
    for part in match[2].split(","):
        declared = _DECLARED.fullmatch(part.strip())
        if declared is None:
            raise PtxError(f"the declaration {_shown(text)}")
        count = int(declared[2]) if declared[2] else None
        if (count or 0) + len(names) > MAX_REGISTERS:
            raise PtxError(f"more than {MAX_REGISTERS} registers")
        names += [declared[1]] if count is None else [f"{declared[1]}{i}" for i in range(count)]
    return Registers(match[1], tuple(names), scope)
