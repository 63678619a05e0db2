"""Device code as tokens with positions, for textual changes; without grammar or semantics.

Comments, strings and directives are single tokens, so nothing inside them is changed. Not covered: the
changes (`kcurate.mutate.wrong`, benchmarks/harmless_changes.py).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from kcurate.cuda_source.text.tokens import KINDS

_TYPE = re.compile(
    r"\btypedef\b[^;{]*\b(\w+)\s*;|\busing\s+(\w+)\s*=|\b(?:struct|union|enum)\s+(\w+)|\b(?:typename|class)\s+(\w+)"
)
CLOSING = {"(": ")", "[": "]", "{": "}"}


@dataclass(frozen=True)
class Span:
    """One token: `start` and `end` are character offsets."""

    kind: str
    text: str
    start: int
    end: int


@dataclass(frozen=True)
class Edit:
    """A change: the text from `start` to `end` becomes `text`."""

    start: int
    end: int
    text: str


Changes = Iterator[tuple[str, tuple[Edit, ...]]]


@dataclass(frozen=True)
class Code:
    """A text with its tokens; `partner` maps the index of each bracket to the index of its counterpart.

    `types`: the names that the text declares as types.
    """

    text: str
    tokens: tuple[Span, ...]
    partner: dict[int, int] = field(hash=False)
    types: frozenset[str] = frozenset()

    @classmethod
    def of(cls, text: str) -> Code:
        """Tokenise a text; unbalanced brackets have no partner."""
        tokens = tuple(
            Span(match.lastgroup or "sign", match.group(), match.start(), match.end())
            for match in KINDS.finditer(text)
            if match.lastgroup != "skip"
        )
        partner: dict[int, int] = {}
        stack: list[int] = []
        for i, token in enumerate(tokens):
            if token.text in CLOSING:
                stack.append(i)
            elif stack and token.text == CLOSING[tokens[stack[-1]].text]:
                opening = stack.pop()
                partner |= {opening: i, i: opening}
        declared = frozenset(name for match in _TYPE.finditer(text) for name in match.groups() if name)
        return cls(text, tokens, partner, declared)

    def at(self, index: int) -> str:
        """The token's text; empty if out of range."""
        return self.tokens[index].text if 0 <= index < len(self.tokens) else ""

    def between(self, first: int, last: int) -> str:
        """The text strictly between two tokens."""
        return self.text[self.tokens[first].end : self.tokens[last].start]

    def inside(self, opening: int) -> tuple[int, ...]:
        """Indices of the tokens strictly inside a bracket."""
        return tuple(range(opening + 1, self.partner.get(opening, opening)))

    def parts(self, opening: int) -> list[tuple[int, int]]:
        """(first, last) token of each comma-separated part inside a bracket."""
        parts, first, at = [], opening + 1, opening + 1
        end = self.partner.get(opening, opening)
        while at < end:
            if self.at(at) == ",":
                parts.append((first, at - 1))
                first = at + 1
            at = self.partner[at] + 1 if self.at(at) in CLOSING and at in self.partner else at + 1
        if first < end:
            parts.append((first, end - 1))
        return [(a, b) for a, b in parts if a <= b]

    def words(self, *names: str) -> Iterator[int]:
        """Indices of the word tokens with one of these texts."""
        texts = frozenset(names)
        return (i for i, token in enumerate(self.tokens) if token.kind == "word" and token.text in texts)

    def text_of(self, part: tuple[int, int]) -> str:
        """The text from one token to another, inclusive."""
        return self.text[self.tokens[part[0]].start : self.tokens[part[1]].end]

    def instead(self, first: int, text: str, last: int | None = None) -> Edit:
        """The edit that replaces a token, or those from `first` to `last`, by a text."""
        return Edit(self.tokens[first].start, self.tokens[first if last is None else last].end, text)

    def ending(self, index: int, *texts: str) -> int | None:
        """The index of the next token with one of these texts; None if there is none."""
        return next((k for k in range(index, len(self.tokens)) if self.at(k) in texts), None)

    def is_operand(self, index: int) -> bool:
        """Whether a value can end here: a number, a closing bracket or a name that is no type or keyword."""
        if not 0 <= index < len(self.tokens):
            return False
        token = self.tokens[index]
        named = token.kind == "word" and token.text not in self.types | TYPES | KEYWORDS
        return token.kind == "number" or token.text in (")", "]") or named


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


TYPES = _words(
    "void bool char short int long float double unsigned signed auto const half size_t uint2 uint4 int2 int4 "
    "float2 float3 float4 double2 uint8_t int8_t uint16_t int16_t uint32_t int32_t uint64_t int64_t "
    "__half __half2 __nv_bfloat16 uchar4 unsigned"
)
KEYWORDS = _words(
    "if else for while do return break continue switch case default sizeof struct union enum class typename "
    "template using namespace static inline constexpr volatile extern goto operator new delete true false "
    "__global__ __device__ __shared__ __constant__ __restrict__ __launch_bounds__ __forceinline__"
)


def apply(text: str, edits: Sequence[Edit]) -> str:
    """The text with all edits applied; they must not overlap."""
    for edit in sorted(edits, key=lambda change: change.start, reverse=True):
        text = text[: edit.start] + edit.text + text[edit.end :]
    return text
