"""Finds what compiled code depends on outside its launch, from its PTX rather than from source text.

These are special registers for time or location, sleeps, waits with a time limit, and local memory that no
variable declares. Not covered: inline PTX in source text (`kcurate.judge.checks.assembly`), whether such a
dependence is a fault (`kcurate.judge.checks.binary`).
"""

from __future__ import annotations

import re

from kcurate.ptx.rows import REFUSED_REGISTERS

_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)
_REGISTER = re.compile(rf"%((?:{'|'.join(REFUSED_REGISTERS)})\w*)")
# Cooperative groups read the address of a grid's barrier from these; a side's text must not name them.
_GRID_BARRIER = frozenset({"envreg1", "envreg2"})
_DELAY = re.compile(r"(?<![\w.%$])(nanosleep|pmevent|brkpt)\b")
_WAIT = re.compile(r"(?<![\w.%$])mbarrier\.(?:try|test)_wait[\w.:]*\s+([^;]*);")
# A function's head: its kind, its name and what follows, up to the next head.
_BODY = re.compile(r"(?<![\w.])\.(entry|func)\b\s*(?:\([^)]*\)\s*)?([\w$]+)")
_LOCAL = re.compile(r"(?<![\w.%$])(?:ld|st|atom|red|cvta|isspacep)\.(?:[a-z]\w*\.)*?local\b")
_NAME = re.compile(r"[A-Za-z_$%][\w$]*")
_DECLARED = re.compile(r"(?<![\w.])\.local\b")
# Operands of a wait: predicate, barrier, phase. A fourth one is a time limit.
WAIT_OPERANDS = 3


def outside(ptx: str) -> tuple[str, ...]:
    """Each such dependence once, as a phrase that continues a sentence about a binary ("reads %clock64")."""
    text = _COMMENT.sub("", ptx)
    facts = [f"reads %{name}" for name in _REGISTER.findall(text) if name not in _GRID_BARRIER]
    facts += [f"has the instruction {name}" for name in _DELAY.findall(text)]
    if any(operands.count(",") >= WAIT_OPERANDS for operands in _WAIT.findall(text)):
        facts.append("waits on a barrier with a time limit")
    if _uses_undeclared_local(text):
        facts.append("uses local memory that no variable declares")
    return tuple(dict.fromkeys(facts))


def _uses_undeclared_local(text: str) -> bool:
    """Whether a function uses local memory, and neither it nor all that call it declare any.

    Called functions may be given the address of a variable of their callers.
    """
    pieces = _BODY.split(text)[1:]
    bodies = [*zip(pieces[::3], pieces[1::3], pieces[2::3], strict=True)]
    declaring = {name for _, name, body in bodies if _DECLARED.search(body)}
    using = {name for _, name, body in bodies if _LOCAL.search(body)} - declaring
    if not using:
        return False
    called = {name: set[str]() for kind, name, _ in bodies if kind == "func"}
    for _, caller, body in bodies:
        for name in called.keys() & set(_NAME.findall(body)) - {caller}:
            called[name].add(caller)
    reached = {name for name, callers in called.items() if callers}
    while alone := {name for name in reached if not called[name] <= reached | declaring}:
        reached -= alone
    return not using <= reached
