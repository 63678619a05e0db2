"""Joins the code of several files, for pipelines whose kernels are in more than one file.

Works on files written by `kcurate.cuda_source`: items separated by blank lines. Not covered: different
functions with the same name; the joined code then does not compile.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

_DEFINED = re.compile(rb"^[ \t]*#[ \t]*define[ \t]+(\w+)(.*(?:\\\n.*)*)", re.MULTILINE)


def join_codes(codes: Iterable[bytes]) -> bytes:
    """Concatenate codes: duplicate items are dropped, and a macro is undefined before it is redefined."""
    seen: set[bytes] = set()
    macros: dict[bytes, bytes] = {}
    out: list[bytes] = []
    for code in codes:
        for item in _items(code):
            if item in seen and not _DEFINED.search(item):
                continue
            seen.add(item)
            for name, value in _DEFINED.findall(item):
                if macros.get(name, value) != value:
                    out.append(b"#undef " + name)
                macros[name] = value
            out.append(item)
    return b"\n\n".join(out) + b"\n"


def _items(code: bytes) -> Iterator[bytes]:
    """The pieces between blank lines outside all braces."""
    held: list[bytes] = []
    depth = 0
    for piece in re.split(rb"\n[ \t\r]*\n", code.strip(b"\n")):
        held.append(piece)
        depth += piece.count(b"{") - piece.count(b"}")
        if depth <= 0:
            yield b"\n\n".join(held)
            held, depth = [], 0
    if held:
        yield b"\n\n".join(held)
