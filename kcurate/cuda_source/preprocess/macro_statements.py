"""Macro calls that are declarations of their own at file scope: `DEFINE_OP(add, +)`, `TABLE(n) 1, 2 END()`,
and kernels that one begins: `BEGIN(k) ... END`, `KERNEL(k)(int *x) { ... }`.

The grammar cannot read them, and may take what follows for their body. Not covered: other calls that only
begin a declaration (`macros` blanks those before a kernel).
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
_MARK_OR_WORD = re.compile(rb"[{}]|\b([A-Za-z_]\w*)")
# What may stand before the macro that begins a kernel.
_HEAD = re.compile(rb'(?:\btemplate\s*<[^;{}]*>\s*|\bextern\s*"[^"\n]*"\s*|\b(?:static|inline)\s+)+\Z')
_BODY = re.compile(rb"[;{]")
# What is blank before a statement, a namespace's name, and a statement are shorter.
GAP_BYTES = 10_000
MAX_STATEMENT_BYTES = 1 << 18


@dataclass(frozen=True)
class MacroStatement:
    """One statement: its span, the blocks around it, and what it expands to, with what is between its macros
    only where it is a kernel."""

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
    kernels = global_macros(bare)
    headers = kernels.headers | kernels.makers
    words = {name: bodies[name] for name in kernels.words if name in bodies}
    # Macros without parameters that may close what another one opens.
    ends = {name: body for name, body in bodies.items() if name not in macros and b"}" in body}
    code = blank_directives(bare)
    if not any(name in code for name in macros):
        return
    blocks: list[bytes | None] = []
    last = 0
    for match in _marks(code, macros, 0, len(code)):
        at = match.start()
        if at < last:
            continue
        if match[0] == b"{":
            first = max(0, at - GAP_BYTES, *(code.rfind(sign, max(0, at - GAP_BYTES), at) for sign in b";{}"))
            head = _BLOCK.search(code, first, at)
            blocks.append(text[head.start() : at].strip() if head else None)
        elif match[0] == b"}":
            del blocks[-1:]
        elif None not in blocks:
            first = max(last, at - GAP_BYTES)
            head = _HEAD.search(code, first, at) if match[1] in headers else None
            start = head.start() if head else at
            if code[first:start].rstrip()[-1:] not in (b"", b";", b"{", b"}"):
                continue
            statement = _statement(code, text, match, macros, words, ends)
            if statement is not None:
                last, expansion = statement
                yield MacroStatement(start, last, tuple(filter(None, blocks)), text[start:at] + expansion)


def _marks(
    code: bytes, macros: Mapping[bytes, bytes], at: int, end: int, mark: re.Pattern[bytes] = _MARK
) -> Iterator[re.Match[bytes]]:
    """Braces and calls of macros, in order."""
    return (match for match in mark.finditer(code, at, end) if match[1] is None or match[1] in macros)


def _statement(
    code: bytes,
    text: bytes,
    match: re.Match[bytes],
    macros: Mapping[bytes, bytes],
    words: Mapping[bytes, bytes],
    ends: Mapping[bytes, bytes],
) -> tuple[int, bytes] | None:
    """The end of the statement that a call begins, and what it expands to; None: it is only a beginning.

    Macros without parameters that are expanded too: `words`, which stand for `__global__`, and `ends`, which
    may end a kernel.
    """
    expansion, depth, end, limit = b"", 0, match.start(), match.start() + MAX_STATEMENT_BYTES
    kernel = False
    step: re.Match[bytes] | None = match
    while step is not None:
        between = text[end : step.start()] if kernel else b" "
        more, end = step[0], step.end()
        if more not in (b"{", b"}"):
            closed = closing(code, end) if step[1] in macros else end
            called = (
                expanded_text(text[step.start() : closed], {**macros, **words, **ends}) if closed else None
            )
            if closed is None or (called is None and not kernel):
                return None
            more, end = text[step.start() : closed] if called is None else called, closed
        bare = blank_literals(more)
        if kernel and bare.count(b"{") == bare.count(b"}"):
            more = text[step.start() : end]
        expansion += between + more
        kernel = kernel or b"__global__" in bare
        depth += bare.count(b"{") - bare.count(b"}")
        if depth <= 0:
            break
        step = next(_marks(code, {**macros, **ends}, end, limit, _MARK_OR_WORD if kernel else _MARK), None)
    if step is None:
        return None
    if kernel and expansion.strip()[-1:] not in (b";", b"}"):
        closed = _body_end(code, end)
        return (closed, expansion + text[end:closed]) if closed else None
    if ending := _END.match(code, end):
        return ending.end(), expansion + b";"
    return (end, expansion) if expansion.strip()[-1:] in (b"", b";", b"}") else None


def _body_end(code: bytes, at: int) -> int | None:
    """Where the body ends of a kernel whose header ends before `at`; None: it has none."""
    body = _BODY.search(code, at, at + MAX_STATEMENT_BYTES)
    return closing(code, body.start(), MAX_STATEMENT_BYTES) if body and body[0] == b"{" else None
