"""Calls of macros that hold launches, expanded: `LAUNCH(128)` in host code, macros that define launchers.

Not covered: macros that define kernels (`macros`).
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from kcurate.cuda_source.brackets import closing
from kcurate.cuda_source.expansion import UnevaluatedError, expanded
from kcurate.cuda_source.items import Parsed
from kcurate.cuda_source.text import IDENTIFIER

_DEFINE = re.compile(rb"[ \t]*#[ \t]*define[ \t]+(\w+)((?:\\\r?\n|[^\n])*)")
_LAUNCH = re.compile(rb"<\s*<\s*<|\btemplate\b[^;{}]*;|\bcudaLaunch\w*")
# More calls than any tree seen here has in one unit (1,100).
MAX_CALLS = 4000


def expanded_calls(parsed: Parsed, bare: bytes) -> Iterator[tuple[int, bytes]]:
    """The position and expansion of each call of a macro that leads to a launch."""
    macros: dict[bytes, bytes] = {}
    launching: set[bytes] = set()
    defines: list[tuple[int, int, bytes]] = []
    for item in parsed.items:
        if item.kind == "macro" and (match := _DEFINE.match(parsed.text, item.start)):
            body = re.sub(rb"\\\r?\n", b" ", match[2])
            macros[match[1]] = body
            defines.append((item.start, match.end(), match[1]))
            if body.startswith(b"(") and _LAUNCH.search(body):
                launching.add(match[1])
    size = -1
    while launching and size != len(launching):
        size = len(launching)
        launching |= {name for name, body in macros.items() if launching & {*IDENTIFIER.findall(body)}}
    if not launching:
        return
    inside = [(start, end) for start, end, _ in defines]
    named = re.compile(rb"\b(?:" + b"|".join(sorted(map(re.escape, launching))) + rb")\s*(?=\()")
    for count, match in enumerate(named.finditer(bare)):
        end = closing(bare, match.end())
        if count > MAX_CALLS:
            return
        if end is None or any(start <= match.start() < stop for start, stop in inside):
            continue
        try:
            words = expanded(parsed.text[match.start() : end], macros, lambda header: False)
        except UnevaluatedError:
            continue
        yield match.start(), b" ".join(words)
