"""Macro calls that are declarations of their own at file scope: `DEFINE_OP(add, +)`, `TABLE(n) 1, 2 END()`.

The grammar cannot read them, and may take what follows for their body. Not covered: calls that only begin a
declaration (`macros` blanks those before a kernel).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from kcurate.cuda_source.preprocess.expansion import definitions, expanded_text
from kcurate.cuda_source.preprocess.macros import global_macros
from kcurate.cuda_source.text.blanking import blank_directives, blank_literals
from kcurate.cuda_source.text.brackets import closing

_BLOCK = re.compile(rb'(?:\b(?:inline\s+)?namespace\b[\w\s:]*|\bextern\s*"[^"\n]*"\s*)\Z')
_MARK = re.compile(rb"[{}]|\b([A-Za-z_]\w*)[ \t]*(?=\()")
_END = re.compile(rb"\s*;")
# What is blank before a statement, a namespace's name, and a statement are shorter.
GAP_BYTES = 10_000
MAX_STATEMENT_BYTES = 1 << 18


@dataclass(frozen=True)
class MacroStatement:
    """One statement: its span, the blocks around it, and what it expands to, without what braces hold."""

    start: int
    end: int
    wrapper: tuple[bytes, ...]
    expansion: bytes


def macro_statements(text: bytes, bare: bytes) -> Iterator[MacroStatement]:
    """The statements of a text that calls of its own function-like macros make; `bare` has no literals."""
    bodies = {definition.name: definition.body for definition in definitions(text)}
    macros = {name: body for name, body in bodies.items() if body.startswith(b"(")}
    if not macros:
        return
    words = {name: bodies[name] for name in global_macros(bare).words if name in bodies}
    code = blank_directives(bare)
    if not any(name in code for name in macros):
        return
    blocks: list[bytes | None] = []
    last = 0
    for match in _marks(code, macros, 0, len(code)):
        at = match.start()
        if at < last:
            continue
        before = code[max(last, at - GAP_BYTES) : at].rstrip()[-1:]
        if match[0] == b"{":
            first = max(0, at - GAP_BYTES, *(code.rfind(sign, max(0, at - GAP_BYTES), at) for sign in b";{}"))
            head = _BLOCK.search(code, first, at)
            blocks.append(text[head.start() : at].strip() if head else None)
        elif match[0] == b"}":
            del blocks[-1:]
        elif None not in blocks and before in (b"", b";", b"{", b"}"):
            statement = _statement(code, text, match, macros, words)
            if statement is not None:
                last, expansion = statement
                yield MacroStatement(at, last, tuple(filter(None, blocks)), expansion)


def _marks(code: bytes, macros: Mapping[bytes, bytes], at: int, end: int) -> Iterator[re.Match[bytes]]:
    """Braces and calls of macros, in order."""
    return (match for match in _MARK.finditer(code, at, end) if match[1] is None or match[1] in macros)


def _statement(
    code: bytes,
    text: bytes,
    match: re.Match[bytes],
    macros: Mapping[bytes, bytes],
    words: Mapping[bytes, bytes],
) -> tuple[int, bytes] | None:
    """The end of the statement that a call begins, and what it expands to; None: it is only a beginning.

    `words` are macros without parameters that are expanded too: those that stand for `__global__`.
    """
    expansion, depth, limit = b"", 0, match.start() + MAX_STATEMENT_BYTES
    step: re.Match[bytes] | None = match
    while step is not None:
        more, end = step[0], step.end()
        if more not in (b"{", b"}"):
            closed = closing(code, end)
            called = expanded_text(text[step.start() : closed], {**macros, **words}) if closed else None
            if closed is None or called is None:
                return None
            more, end = called, closed
        expansion += b" " + more
        bare = blank_literals(more)
        depth += bare.count(b"{") - bare.count(b"}")
        if depth <= 0:
            break
        step = next(_marks(code, macros, end, limit), None)
    if step is None:
        return None
    if ending := _END.match(code, end):
        return ending.end(), expansion + b";"
    return (end, expansion) if expansion.strip()[-1:] in (b"", b";", b"}") else None
