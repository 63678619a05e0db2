"""Macro calls that are declarations at file scope, and kernels that a macro call begins.

The former are calls such as `DEFINE_OP(add, +)` and `TABLE(n) 1, 2 END()`, the latter `BEGIN(k) ... END` and
`KERNEL(k)(int *x) { ... }`. The grammar cannot parse them, and may take what follows for their body. Not
covered: other calls that only begin a declaration (`macros` blanks those before a kernel).
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
# Bounds of the search: blanks and heads before a statement, and the statement itself.
GAP_BYTES = 10_000
MAX_STATEMENT_BYTES = 1 << 18


@dataclass(frozen=True)
class MacroStatement:
    """One statement: its span, the heads of the blocks around it, and its expansion.

    Code between the statement's macro calls is part of the expansion only if the statement is a kernel.
    """

    start: int
    end: int
    wrapper: tuple[bytes, ...]
    expansion: bytes


def macro_statements(text: bytes, bare: bytes) -> Iterator[MacroStatement]:
    """The statements formed by calls of the text's function-like macros; `bare` has no literals."""
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
    blocks: list[bytes | None] = []  # the open braces: the head of a namespace or `extern "C"`, else None
    statement_end = 0
    for match in _marks(code, macros, 0, len(code)):
        at = match.start()
        if at < statement_end:
            continue
        if match[0] == b"{":
            earliest = max(0, at - GAP_BYTES)
            search_start = max(earliest, *(code.rfind(sign, earliest, at) for sign in b";{}"))
            head = _BLOCK.search(code, search_start, at)
            blocks.append(text[head.start() : at].strip() if head else None)
        elif match[0] == b"}":
            del blocks[-1:]
        elif None not in blocks:
            search_start = max(statement_end, at - GAP_BYTES)
            head = _HEAD.search(code, search_start, at) if match[1] in headers else None
            start = head.start() if head else at
            if code[search_start:start].rstrip()[-1:] not in (b"", b";", b"{", b"}"):
                continue
            statement = _statement(code, text, match, macros, words, ends)
            if statement is not None:
                statement_end, expansion = statement
                heads = tuple(filter(None, blocks))
                yield MacroStatement(start, statement_end, heads, text[start:at] + expansion)


def _marks(
    code: bytes, macros: Mapping[bytes, bytes], at: int, end: int, mark: re.Pattern[bytes] = _MARK
) -> Iterator[re.Match[bytes]]:
    """The braces and the uses of these macros, in order."""
    return (match for match in mark.finditer(code, at, end) if match[1] is None or match[1] in macros)


def _statement(
    code: bytes,
    text: bytes,
    match: re.Match[bytes],
    macros: Mapping[bytes, bytes],
    words: Mapping[bytes, bytes],
    ends: Mapping[bytes, bytes],
) -> tuple[int, bytes] | None:
    """The end and expansion of the statement that a call begins; None: the call only begins a declaration.

    `words` and `ends` are macros without parameters that are expanded too: `words` stand for `__global__`,
    `ends` may close a kernel.
    """
    expansion, depth, end, furthest = b"", 0, match.start(), match.start() + MAX_STATEMENT_BYTES
    expandable = {**macros, **words, **ends}
    kernel = False
    mark: re.Match[bytes] | None = match
    while mark is not None:
        between = text[end : mark.start()] if kernel else b" "
        part, end = mark[0], mark.end()
        if part not in (b"{", b"}"):
            use_end = closing(code, end) if mark[1] in macros else end
            if use_end is None:
                return None
            use, end = text[mark.start() : use_end], use_end
            expanded_use = expanded_text(use, expandable)
            if expanded_use is None and not kernel:
                return None
            part = use if expanded_use is None else expanded_use
        bare = blank_literals(part)
        if kernel and bare.count(b"{") == bare.count(b"}"):
            # In a kernel's body, only macros that open or close braces need expanding.
            part = text[mark.start() : end]
        expansion += between + part
        kernel = kernel or b"__global__" in bare
        depth += bare.count(b"{") - bare.count(b"}")
        if depth <= 0:
            break
        mark = next(_marks(code, {**macros, **ends}, end, furthest, _MARK_OR_WORD if kernel else _MARK), None)
    if mark is None:
        return None
    if kernel and expansion.strip()[-1:] not in (b";", b"}"):
        body_end = _body_end(code, end)
        return (body_end, expansion + text[end:body_end]) if body_end else None
    if ending := _END.match(code, end):
        return ending.end(), expansion + b";"
    return (end, expansion) if expansion.strip()[-1:] in (b"", b";", b"}") else None


def _body_end(code: bytes, at: int) -> int | None:
    """The end of the body of a kernel whose header ends before `at`; None: it has no body."""
    body = _BODY.search(code, at, at + MAX_STATEMENT_BYTES)
    return closing(code, body.start(), MAX_STATEMENT_BYTES) if body and body[0] == b"{" else None
