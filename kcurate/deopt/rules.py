"""Rewrite rules: named functions from bytes to bytes that each take one technique out of device code.

A rule touches only what it can prove safe from the text alone, and says so when there is nothing of the
kind. Comments, strings and macro bodies are never changed. Not covered: plans (a rule that needs another
launch is not here), and whether the result is slower (`kcurate validate` finds out).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from kcurate.cuda_source import parse


@dataclass(frozen=True)
class NotApplicable:
    """Why a rule leaves code as it is."""

    reason: str


@dataclass(frozen=True)
class Rule:
    """A rewrite: its name, the technique that a pair then shows, what it takes out in words."""

    name: str
    technique: str
    removes: str
    rewrite: Callable[[bytes], bytes | NotApplicable]


@dataclass(frozen=True)
class Edit:
    """Replace the bytes `[start, end)`."""

    start: int
    end: int
    text: bytes = b""


def edited(code: bytes, edits: Iterable[Edit], reason: str) -> bytes | NotApplicable:
    """The code with all edits made, which must not overlap; `reason` is for when there are none."""
    done, parts, position = 0, [], 0
    for edit in sorted(edits, key=lambda edit: edit.start):
        parts += [code[position : edit.start], edit.text]
        position, done = edit.end, done + 1
    return b"".join([*parts, code[position:]]) if done else NotApplicable(reason)


def nodes(code: bytes, *kinds: str) -> Iterator[Any]:
    """The syntax nodes of some kinds, outermost first; their spans are spans of `code`."""
    stack = [parse(code).tree.root_node]
    while stack:
        node = stack.pop()
        if node.type in kinds:
            yield node
        stack.extend(reversed(node.children))


UNROLL = re.compile(rb"#\s*pragma\s+(?:GCC\s+)?unroll\s*(?P<count>.*?)\s*\Z", re.DOTALL)
# `#pragma unroll 1` forbids unrolling: taking it out would make the code faster.
FORBIDS_UNROLLING = re.compile(rb"\(?\s*[01]\s*\)?\Z")


def drop_restrict(code: bytes) -> bytes | NotApplicable:
    """Take out `__restrict__`: the compiler must then reload what a store might have changed.

    Safe: a weaker promise about pointers never makes a correct program wrong.
    """
    edits = [
        Edit(*_with_space_after(code, node.start_byte, node.end_byte))
        for node in nodes(code, "type_qualifier", "ms_restrict_modifier")
        if code[node.start_byte : node.end_byte] in (b"__restrict__", b"__restrict")
    ]
    return edited(code, edits, "no __restrict__ in a declaration")


def drop_unroll(code: bytes) -> bytes | NotApplicable:
    """Take out `#pragma unroll`: loops are then unrolled only where the compiler wants to.

    Safe: the pragma has no meaning beyond speed.
    """
    edits = []
    for node in nodes(code, "preproc_call"):
        found = UNROLL.match(code[node.start_byte : node.end_byte].strip())
        if found and not FORBIDS_UNROLLING.match(found["count"]):
            edits.append(Edit(*_whole_line(code, node.start_byte)))
    return edited(code, edits, "no #pragma unroll that asks for unrolling")


def plain_loads(code: bytes) -> bytes | NotApplicable:
    """Turn `__ldg(p)` into `(*(p))`: an ordinary load instead of one through the read-only cache.

    Safe: `__ldg` may only read what no thread writes while the kernel runs, and there both loads agree.
    """
    edits = []
    for node in nodes(code, "call_expression"):
        text = code[node.start_byte : node.end_byte]
        opening = re.match(rb"__ldg\s*\(", text)
        if opening and text.endswith(b")"):
            edits.append(Edit(node.start_byte, node.start_byte + opening.end(), b"(*("))
            edits.append(Edit(node.end_byte - 1, node.end_byte, b"))"))
    return edited(code, edits, "no call of __ldg")


def _with_space_after(code: bytes, start: int, end: int) -> tuple[int, int]:
    """The span with the blanks that follow it, unless they part two words."""
    after = end
    while code[after : after + 1] in (b" ", b"\t"):
        after += 1
    glued = re.search(rb"\w\Z", code[:start]) and re.match(rb"\w", code[after:])
    return (start, end) if glued else (start, after)


def _whole_line(code: bytes, start: int) -> tuple[int, int]:
    """The span of the line on which a directive starts, with its end."""
    end = code.find(b"\n", start) + 1
    return code.rfind(b"\n", 0, start) + 1, end or len(code)


RULES: tuple[Rule, ...] = (
    Rule("restrict", "restrict-pointers", "the promise that pointers do not overlap", drop_restrict),
    Rule("unroll", "loop-unrolling", "the request to unroll loops", drop_unroll),
    Rule("read-only-loads", "read-only-cache", "loads through the read-only cache", plain_loads),
)
