"""The code of several files as one: for pipelines, whose kernels stand in more than one file.

Works on the closures that `kcurate.cuda_source` writes: items with a blank line between them. Not covered:
two files that give one name to different functions; such a side does not compile.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

_DEFINED = re.compile(rb"^[ \t]*#[ \t]*define[ \t]+(\w+)(.*(?:\\\n.*)*)", re.MULTILINE)


def join_codes(codes: Iterable[bytes]) -> bytes:
    """One code of several: an item that an earlier file has goes, a macro that differs is undefined first."""
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
    """The pieces between blank lines that stand outside of all braces."""
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
