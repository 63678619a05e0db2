"""Device code as a flat list of tokens, for checks that hostile code must not slip past.

A lexer and no parser: it needs no grammar that odd code could confuse, and it sees what a compiler sees
(spliced lines joined, comments gone, strings whole). Macros are not expanded. Not covered: what may be
written (`kcurate.judge.static_checks`), structure (`kcurate.cuda_source`).
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

Kind = Literal["word", "number", "string", "char", "sign", "directive"]

_TOKEN = re.compile(
    r"""
    (?P<space>[ \t\r\f\v]+)
  | (?P<newline>\n)
  | (?P<comment>//[^\n]*|/\*.*?(?:\*/|\Z))
  | (?P<raw>(?:u8|[uUL])?R"(?P<mark>[^()\\\s]{0,16})\(.*?\)(?P=mark)")
  | (?P<string>(?:u8|[uUL])?"(?:\\.|[^"\\\n])*")
  | (?P<char>(?:u8|[uUL])?'(?:\\.|[^'\\\n])+')
  | (?P<number>\.?\d(?:[eEpP][+-]|'?[\w.])*)
  | (?P<word>[A-Za-z_$]\w*)
  | (?P<sign><<<|>>>|\#\#|::|->|\+\+|--|<<=|>>=|[-+*/%&|^]=|[=!<>]=|&&|\|\||<<|.)
    """,
    re.VERBOSE | re.DOTALL,
)
_SPLICE = re.compile(r"\\[ \t]*\r?\n")


@dataclass(frozen=True)
class Token:
    """One token; a directive is one token from `#` to the end of its (spliced) line. Lines count from 1."""

    kind: Kind
    text: str
    line: int


def tokenize(code: str) -> tuple[Token, ...]:
    """The tokens of device code. Never fails: what is no token of C++ comes as a sign of one character.

    Words inside directives are not tokens of their own; see `directive_tokens`. Spliced lines count as one.
    """
    return _scan(_SPLICE.sub("", code), 1, directives=True)


def directive_tokens(directive: Token) -> tuple[Token, ...]:
    """The tokens of a directive after its `#`."""
    return _scan(directive.text.lstrip()[1:], directive.line, directives=False)


def _scan(code: str, line: int, *, directives: bool) -> tuple[Token, ...]:
    found: list[Token] = []
    at, fresh = 0, True
    while at < len(code):
        if directives and fresh and code[at] == "#":
            end = _directive_end(code, at)
            found.append(Token("directive", code[at:end], line))
            line += code.count("\n", at, end)
            at = end
            continue
        match = _TOKEN.match(code, at)
        assert match is not None, "the last alternative takes any character"
        kind, text = match.lastgroup or "sign", match.group()
        if kind == "newline":
            fresh = True
        elif kind not in ("space", "comment"):
            found.append(Token(_kind(kind), text, line))
            fresh = False
        line += text.count("\n")
        at = match.end()
    return tuple(found)


def _kind(group: str) -> Kind:
    kinds: dict[str, Kind] = {
        "word": "word",
        "number": "number",
        "string": "string",
        "raw": "string",
        "mark": "string",
        "char": "char",
    }
    return kinds.get(group, "sign")


def _directive_end(code: str, at: int) -> int:
    """Where a directive ends: at its newline, a comment over several lines belonging to it."""
    while at < len(code) and code[at] != "\n":
        match = _TOKEN.match(code, at)
        assert match is not None, "the last alternative takes any character"
        at = match.end()
    return at
