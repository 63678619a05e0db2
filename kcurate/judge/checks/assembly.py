"""Inline PTX must be plain string literals of whole, allowed instructions that read no clock.

A branch must stay inside its asm statement. The result of a wait must be used, since a wait on a barrier that
never completes is a sleep. Not covered: machine code (`kcurate.judge.checks.binary`), the grammar
(`kcurate.ptx.parse`), what is allowed (`kcurate.ptx.rows`).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from kcurate.judge.checks import word_lists
from kcurate.judge.checks.findings import Finding
from kcurate.judge.checks.lexer import Source, Token, inside_parentheses
from kcurate.ptx import rows, table
from kcurate.ptx.outside import WAIT_OPERANDS
from kcurate.ptx.parse import Instruction, Label, PtxError, Statement, parse

_PTX_ESCAPE = re.compile(r"\\(.)", re.DOTALL)
_WORD = re.compile(r"%?[A-Za-z_$][\w$]*")
# A register, an immediate, or memory. Not `C`, which puts text into the instruction.
_CONSTRAINT = re.compile(r'"[=+]?&?[rlhfdqn]"|"memory"|"cc"')


def assembly(source: Source) -> Iterator[Finding]:
    """Inline assembly that is not a plain string, uses a refused instruction, or reads a clock."""
    for stream in source.streams:
        for at, token in enumerate(stream):
            if token.text not in word_lists.ASM_WORDS:
                continue
            start = at + 1
            while start < len(stream) and stream[start].text in ("volatile", "__volatile__"):
                start += 1
            inside = inside_parentheses(stream, start)
            end = next((i for i, item in enumerate(inside) if item.text.startswith(":")), len(inside))
            text = inside[:end]
            if not text or any(item.kind != "string" or not item.text.startswith('"') for item in text):
                yield Finding("assembly", "asm whose text is not a plain string literal", token.line)
            else:
                yield from _ptx("".join(item.text[1:-1] for item in text), token.line)
                yield from _constraints(inside[end:])


def _constraints(operands: Sequence[Token]) -> Iterator[Finding]:
    """Constraints other than registers, immediates and clobbers, and symbolic operand names."""
    depth = 0
    for item in operands:
        depth += (item.text == "(") - (item.text == ")")
        if depth == 0 and item.kind == "string" and not _CONSTRAINT.fullmatch(item.text):
            yield Finding("assembly", f"the constraint {item.text}", item.line)
        elif depth == 0 and item.kind == "word":
            yield Finding("assembly", f"the operand {item.text}", item.line)


def _ptx(text: str, line: int) -> Iterator[Finding]:
    if any(escape not in 'nt\\"' for escape in _PTX_ESCAPE.findall(text)):
        yield Finding("assembly", "an escape sequence that hides text", line)
    text = _PTX_ESCAPE.sub(lambda match: {"n": "\n", "t": " "}.get(match[1], match[1]), text)
    for register in re.findall(r"%([A-Za-z_]\w*)", text):
        if register.startswith(rows.REFUSED_REGISTERS):
            yield Finding("assembly", f"reads %{register}", line)
    try:
        statements = parse(text)
    except PtxError as error:
        yield Finding("assembly", str(error), line)
        return
    for at, statement in enumerate(statements):
        if not isinstance(statement, Instruction):
            continue
        name = statement.name
        if name not in table.allowed():
            why = rows.REFUSED.get(name)
            yield Finding("assembly", f"the PTX instruction {name}" + (f", which {why}" if why else ""), line)
        elif "local" in statement.opcode.split("."):
            yield Finding("assembly", f"{statement.opcode}: local memory that no variable declares", line)
        elif name == "bra" and not _stays_inside(statement, statements):
            yield Finding(
                "assembly", f"{' '.join(statement.operands)} is not a label of this statement", line
            )
        elif "try_wait" in statement.opcode.split(".") and len(statement.operands) > WAIT_OPERANDS:
            yield Finding("assembly", "a wait with a time limit (leave its last operand out)", line)
        elif "try_wait" in statement.opcode.split(".") and not _result_is_used(statement, statements[at:]):
            yield Finding("assembly", "a wait whose answer is not used", line)


def _stays_inside(branch: Instruction, statements: Sequence[Statement]) -> bool:
    """Whether a branch names one label, in its own block or one around it."""
    return len(branch.operands) == 1 and any(
        isinstance(label, Label)
        and label.name == branch.operands[0]
        and branch.scope[: len(label.scope)] == label.scope
        for label in statements
    )


def _result_is_used(wait: Instruction, following: Sequence[Statement]) -> bool:
    """Whether a wait's predicate is an operand of the asm statement, or a later instruction reads it."""
    predicate = wait.operands[0] if wait.operands else "_"
    return predicate.startswith("%") or any(
        isinstance(later, Instruction)
        and later is not wait
        and predicate
        in (later.guard.lstrip("!"), *(word for part in later.operands for word in _WORD.findall(part)))
        for later in following
    )
