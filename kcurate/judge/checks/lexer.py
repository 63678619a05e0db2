"""Device code as a flat list of tokens, for checks that hostile code must not evade.

A lexer has no grammar that odd code could confuse. It joins spliced lines, drops comments and keeps strings
whole; an unterminated string runs to the end of its line, a raw one to the end of the code. It runs in linear
time and expands no macros. Not covered: the rules (`kcurate.judge.checks.static`), structure
(`kcurate.cuda_source`).
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

Kind = Literal["word", "number", "string", "char", "punctuation", "directive"]

_TOKEN = re.compile(
    r"""
    (?P<space>[ \t\r\f\v]+)
  | (?P<newline>\n)
  | (?P<comment>//[^\n]*|/\*.*?(?:\*/|\Z))
  | (?P<raw>(?:u8|[uUL])?R"(?P<mark>[^()\\\s]{0,16})\((?:.*?\)(?P=mark)"|.*\Z))
  | (?P<string>(?:u8|[uUL])?"(?:\\.|[^"\\\n])*(?:"|(?=\n)|\Z))
  | (?P<char>(?:u8|[uUL])?'(?:\\.|[^'\\\n])+(?:'|(?=\n)|\Z))
  | (?P<number>\.?\d(?:[eEpP][+-]|'?[\w.])*)
  | (?P<word>[A-Za-z_$]\w*)
  | (?P<punctuation><<<|>>>|\#\#|::|->|\+\+|--|<<=|>>=|[-+*/%&|^]=|[=!<>]=|&&|\|\||<<|.)
    """,
    re.VERBOSE | re.DOTALL,
)
BRACKETS = {"(": ")", "[": "]", "{": "}"}
CLOSING_BRACKETS = frozenset(BRACKETS.values())
_SPLICE = re.compile(r"\\[ \t]*\r?\n")


@dataclass(frozen=True)
class Token:
    """One token; a directive is one token from `#` to the end of its (spliced) line. Lines start at 1."""

    kind: Kind
    text: str
    line: int


def tokenize(code: str) -> tuple[Token, ...]:
    """The tokens of any text; a character that starts no C++ token is a punctuation token.

    Words inside directives are not separate tokens (see `directive_tokens`). Spliced lines count as one.
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
        kind, text = match.lastgroup or "punctuation", match.group()
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
    return kinds.get(group, "punctuation")


def _directive_end(code: str, at: int) -> int:
    """Where a directive ends: at its newline, counting a comment over several lines as part of it."""
    while at < len(code) and code[at] != "\n":
        match = _TOKEN.match(code, at)
        assert match is not None, "the last alternative takes any character"
        at = match.end()
    return at


@dataclass(frozen=True)
class Source:
    """Code and its tokens, computed once for all checks."""

    code: str

    @cached_property
    def tokens(self) -> tuple[Token, ...]:
        """All tokens, with each directive as one."""
        return tokenize(self.code)

    @cached_property
    def directives(self) -> tuple[tuple[Token, ...], ...]:
        """The tokens of each directive after its `#`."""
        return tuple(directive_tokens(token) for token in self.tokens if token.kind == "directive")

    @cached_property
    def plain(self) -> tuple[Token, ...]:
        """All tokens except directives."""
        return tuple(token for token in self.tokens if token.kind != "directive")

    @cached_property
    def streams(self) -> tuple[tuple[Token, ...], ...]:
        """The code, then the tokens of each directive: every place where a word may occur."""
        return (self.plain, *self.directives)

    @cached_property
    def _conditions(self) -> list[tuple[int, tuple[int, ...]]]:
        """The lines where conditions change, and the conditions that hold from there on, by number."""
        found: list[tuple[int, tuple[int, ...]]] = [(0, ())]
        stack: list[int] = []
        for number, line in enumerate(self.directives, 1):
            word = line[0].text if line else ""
            if word in ("endif", "elif", "else") and stack:
                stack.pop()
            if word in ("if", "ifdef", "ifndef", "elif", "else"):
                stack.append(number)
            if line:
                found.append((line[0].line, tuple(stack)))
        return found

    def branch(self, line: int) -> tuple[int, ...]:
        """The conditions (`#if` and the like, by number) that a line stands under."""
        return next(branch for start, branch in reversed(self._conditions) if start <= line)

    @cached_property
    def closes(self) -> list[int]:
        """For each token of `plain` that opens a bracket, where it closes (else the number of tokens)."""
        closes = [len(self.plain)] * len(self.plain)
        stack: list[int] = []
        for at, token in enumerate(self.plain):
            if token.text in BRACKETS:
                stack.append(at)
            elif token.text in CLOSING_BRACKETS and stack:
                closes[stack.pop()] = at
        return closes

    @cached_property
    def around(self) -> list[int]:
        """For each token of `plain` the innermost bracket that it is in; -1: none."""
        around: list[int] = []
        stack: list[int] = []
        for token in self.plain:
            if token.text in CLOSING_BRACKETS and stack:
                stack.pop()
            around.append(stack[-1] if stack else -1)
            if token.text in BRACKETS:
                stack.append(len(around) - 1)
        return around

    @cached_property
    def depth(self) -> int:
        """The deepest nesting of brackets, closed or not."""
        deepest = depth = 0
        for token in self.plain:
            depth = max(0, depth + (token.text in ("(", "[", "{")) - (token.text in (")", "]", "}")))
            deepest = max(deepest, depth)
        return deepest


def inside_parentheses(stream: tuple[Token, ...], at: int) -> tuple[Token, ...]:
    """The tokens inside the parentheses that open at `at`; none if there is no parenthesis."""
    if at >= len(stream) or stream[at].text != "(":
        return ()
    depth = 0
    for end in range(at, len(stream)):
        depth += {"(": 1, ")": -1}.get(stream[end].text, 0)
        if depth == 0:
            return stream[at + 1 : end]
    return stream[at + 1 :]


def matching_bracket(
    tokens: tuple[Token, ...], at: int, opening: str, closing: str, most: int | None = None
) -> int:
    """Where the bracket at `at` closes; `len(tokens)` if it does not, or not within `most` tokens."""
    depth = 0
    for end in range(at, len(tokens) if most is None else min(len(tokens), at + most)):
        depth += (tokens[end].text == opening) - (tokens[end].text == closing)
        if depth == 0:
            return end
    return len(tokens)
