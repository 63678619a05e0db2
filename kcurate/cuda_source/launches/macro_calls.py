"""Expands macro calls that contain launches: `LAUNCH(128)` in host code, and macros that define launchers.

Not covered: macros that define kernels (`macros`).
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from kcurate.cuda_source.parse.items import Parsed
from kcurate.cuda_source.preprocess.expansion import definition, expanded_text
from kcurate.cuda_source.text.brackets import closing
from kcurate.cuda_source.text.tokens import IDENTIFIER

_LAUNCH = re.compile(rb"<\s*<\s*<|\btemplate\b[^;{}]*;|\bcudaLaunch\w*")
# So many calls of a unit are expanded; the largest number in a public tree is 1,100.
MAX_CALLS = 4000


def expanded_calls(parsed: Parsed) -> Iterator[tuple[int, bytes]]:
    """The offset and expansion of each call of a macro that leads to a launch, also through other macros."""
    macros: dict[bytes, bytes] = {}
    launching: set[bytes] = set()
    definition_spans: list[tuple[int, int]] = []
    for item in parsed.items:
        if item.kind == "macro" and (macro := definition(parsed.text, item.start)):
            macros[macro.name] = macro.body
            definition_spans.append((item.start, macro.end))
            if macro.body.startswith(b"(") and _LAUNCH.search(macro.body):
                launching.add(macro.name)
    known_count = -1
    while launching and known_count != len(launching):
        known_count = len(launching)
        launching |= {name for name, body in macros.items() if launching & {*IDENTIFIER.findall(body)}}
    if not launching:
        return
    call_pattern = re.compile(rb"\b(?:" + b"|".join(sorted(map(re.escape, launching))) + rb")\s*(?=\()")
    for index, match in enumerate(call_pattern.finditer(parsed.bare)):
        end = closing(parsed.bare, match.end())
        if index > MAX_CALLS:
            return
        if end is None or any(start <= match.start() < stop for start, stop in definition_spans):
            continue
        expansion = expanded_text(parsed.text[match.start() : end], macros)
        if expansion is not None:
            yield match.start(), expansion
