"""Device code as a flat list of tokens, for checks that hostile code must not evade; and as text again.

A lexer has no grammar that odd code could confuse. It joins spliced lines, drops comments and keeps strings
whole; an unterminated string runs to the end of its line, a raw one to the end of the code. It runs in linear
time and expands no macros. Compilers get `rewritten` text: the tokens that the checks saw, and nothing that
two compilers could cut up differently. `numbers` are a text's literals. Not covered: the rules
(`kcurate.judge.checks.static`), structure (`kcurate.cuda_source`).
"""

from __future__ import annotations

import math
import operator
import re
from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Literal

from kcurate.core.headers import IN_SIDES
from kcurate.errors import ProblemError

Kind = Literal["word", "number", "string", "char", "punctuation", "directive"]

_TOKEN = re.compile(
    r"""
    (?P<space>[ \t\r\f\v]+)
  | (?P<newline>\n)
  | (?P<comment>//[^\n]*|/\*.*?(?:\*/|\Z))
  | (?P<raw>(?:u8|[uUL])?R"(?P<mark>[^()\\\s]{0,16})\((?:.*?\)(?P=mark)"|.*\Z))
  | (?P<string>(?:u8|[uUL])?"(?:\\.|[^"\\\n])*(?:"|(?=\n)|\Z))
  | (?P<char>(?:u8|[uUL])?'(?:\\.|[^'\\\n])+(?:'|(?=\n)|\Z))
  | (?P<number>\.?\d(?:[eEpP][+-]|'?[\w.$])*)
  | (?P<word>[A-Za-z_$][\w$]*)
  | (?P<punctuation><<<|>>>|\#\#|::|->|\+\+|--|<<=|>>=|[-+*/%&|^]=|[=!<>]=|&&|\|\||<<|.)
    """,
    re.VERBOSE | re.DOTALL | re.ASCII,
)
BRACKETS = {"(": ")", "[": "]", "{": "}"}
CLOSING_BRACKETS = frozenset(BRACKETS.values())
_SPLICE = re.compile(r"\\[ \t\f\v]*\r?\n")
# Words that are operators (C++17, [lex.digraph]).
_OPERATORS = {
    "and": "&&", "or": "||", "not": "!", "bitand": "&", "bitor": "|", "xor": "^", "compl": "~",
    "and_eq": "&=", "or_eq": "|=", "xor_eq": "^=", "not_eq": "!=",
}  # fmt: skip
# Operators between two literals that a compiler may have folded.
_FOLDED: dict[str, Callable[[int, int], int]] = {
    "+": operator.add, "-": operator.sub, "*": operator.mul, "<<": operator.lshift, "|": operator.or_,
    "^": operator.xor, "&": operator.and_,
}  # fmt: skip
# No wider integer is an element.
_WIDEST = 1 << 64
_LITERAL = re.compile(r"(0[xX][\da-fA-F.]+(?:[pP][+-]?\d+)?|0[bB][01]+|[\d.]+(?:[eE][+-]?\d+)?)[uUlLfF]*")
# What compilers were seen to read in two ways (NVRTC 13.0, g++ 12.2), or may: before anything is cut up,
# and in the text without comments.
_TWO_WAYS = (
    (re.compile(r"\\[ \t\f\v]+\r?(?=\n|\Z)"), "a backslash before blanks at a line's end"),
    (re.compile(r"\?\?/[ \t]*\r?\n"), "trigraphs"),
    (re.compile(r"\r(?!\n)"), "a carriage return that ends no line"),
    (re.compile("[\0-\x08\x0e-\x1f\x7f]"), "invisible or control characters"),
    (re.compile("[\ud800-\udfff]"), "text that is not Unicode"),
)
_TRIGRAPH = re.compile(r"\?\?[=/'()!<>-]")
_ESCAPE = r"\\(?:[abfnrtv\\'\"?]|[0-7]{1,3}|x[0-9a-fA-F]{1,2})"
_PLAIN: dict[str, tuple[re.Pattern[str], str]] = {
    "string": (re.compile(rf'"(?:[^"\\\n]|{_ESCAPE})*"'), "a string with a prefix, an odd escape or no end"),
    "char": (
        re.compile(rf"'(?:[ -&(-\[\]-~]|{_ESCAPE})'"),
        "a character literal that is not one plain character",
    ),
    "number": (re.compile(r"(?:[\w.+-]|(?<=[0-9a-fA-F])'(?=[0-9a-fA-F]))*", re.ASCII), "a misplaced '"),
    "word": (re.compile(r"\w+", re.ASCII), "a $ in a name"),
}
_ENCODING = re.compile(r"(?:u8|[uUL])?R?")
_DIGRAPH = re.compile(r"<%|%>|%:|:>|<:(?!:[^:>])")
# Names that each compiler would spell its own way: the compilers get the line and the name itself instead.
SPELLED = ("__LINE__", "__func__", "__FUNCTION__")
_BLANKS = str.maketrans("\r\f\v", "   ")


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
    tokens: list[Token] = []
    at, fresh = 0, True
    while at < len(code):
        if directives and fresh and code[at] == "#":
            end = _directive_end(code, at)
            tokens.append(Token("directive", code[at:end], line))
            line += code.count("\n", at, end)
            at = end
            continue
        match = _TOKEN.match(code, at)
        assert match is not None, "the last alternative takes any character"
        kind, text = match.lastgroup or "punctuation", match.group()
        if kind == "newline":
            fresh = True
        elif kind not in ("space", "comment"):
            tokens.append(_token(kind, text, line))
            fresh = False
        line += text.count("\n")
        at = match.end()
    return tuple(tokens)


def _token(group: str, text: str, line: int) -> Token:
    """A token as every compiler may spell it: operators as signs, numbers without separators."""
    kind = _kind(group)
    if kind == "word" and text in _OPERATORS:
        return Token("punctuation", _OPERATORS[text], line)
    return Token(kind, text.replace("'", "") if kind == "number" else text, line)


def _spelled(token: Token) -> Token:
    """A token as the compilers get it; of a name in `SPELLED`, its line or the name as a string."""
    if token.text not in SPELLED:
        return token
    if token.text == "__LINE__":
        return Token("number", str(token.line), token.line)
    return Token("string", f'"{token.text}"', token.line)


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


def numbers(code: str) -> frozenset[int | float]:
    """The values of the number literals of any text, and of sums, shifts and the like of literals alone.

    Operators are applied from left to right. Not covered: what named constants add up to.
    """
    tokens = tokenize(code)
    directives = [token for token in tokens if token.kind == "directive"]
    return frozenset().union(*map(_values, (tokens, *map(directive_tokens, directives))))


def _values(tokens: Sequence[Token]) -> set[int | float]:
    """The values of literals, and of what is computed from literals alone."""
    values: set[int | float] = set()
    terms: list[int | float | str] = []
    for token in map(_spelled, tokens):
        value = _number(token.text) if token.kind == "number" else None
        if value is None and token.text not in (*_FOLDED, "~", "(", ")"):
            terms.clear()
            continue
        terms.append(token.text if value is None else value)
        values |= set() if value is None else {value}
        while (folded := _folded(terms[-3:])) is not None:
            count, value = folded
            terms[-count:] = [value]
            values.add(value)
    return values


def _folded(terms: Sequence[int | float | str]) -> tuple[int, int | float] | None:
    """How many of the last terms are one expression, and its value; None if they are none."""
    match terms:
        case ["(", (int() | float()) as value, ")"]:
            return 3, value
        case [int(first), str(sign), int(second)] if sign in _FOLDED and (sign != "<<" or 0 <= second < 64):
            value = _FOLDED[sign](first, second)
            return (3, value) if abs(value) <= _WIDEST else None
        case [*before, "-", (int() | float()) as value] if not before or isinstance(before[-1], str):
            return 2, -value
        case [*_, "~", int(value)]:
            return 2, ~value
    return None


def _number(text: str) -> int | float | None:
    """The value of a number's text; None if it is none."""
    match = _LITERAL.fullmatch(text)
    if match is None:
        return None
    digits = match[1].lower()
    try:
        if digits.startswith(("0x", "0b")):
            return float.fromhex(digits) if "p" in digits else int(digits, 0)
        if set(digits) & set(".e") or text[-1] in "fF":
            value = float(digits)
            return value if math.isfinite(value) else None
        return int(digits, 8 if len(digits) > 1 and digits[0] == "0" else 10)
    except (ValueError, OverflowError):
        return None


@dataclass(frozen=True)
class Rewritten:
    """Code written anew from its tokens, and what makes that impossible: what, and the line."""

    text: str
    ambiguous: tuple[tuple[str, int], ...]


@lru_cache(maxsize=16)
def rewritten(code: str) -> Rewritten:
    """The tokens of `code` as text with its white space and lines, without comments and spliced lines.

    The text has the same tokens. A logical line that took several lines is one, followed by empty ones.
    """
    ambiguous = [
        (what, code.count("\n", 0, match.start()) + 1)
        for pattern, what in _TWO_WAYS
        for match in [pattern.search(code)]
        if match is not None
    ]
    splices = [match.start() for match in _SPLICE.finditer(code)]
    lengths = [len(match.group()) for match in _SPLICE.finditer(code)]
    removed = 0
    for at, length in enumerate(lengths):  # places in the joined text
        splices[at] -= removed
        removed += length
    writer = _Writer(_SPLICE.sub("", code), splices)
    text = "".join(writer.pieces())
    if _TRIGRAPH.search(text):
        writer.ambiguous.append(("trigraphs", 1))
    return Rewritten(text, (*ambiguous, *writer.ambiguous))


class _Writer:
    """Writes joined code anew; collects what compilers may read in two ways."""

    def __init__(self, code: str, splices: list[int]) -> None:
        self._code, self._splices = code, splices
        self._line, self._paid = 1, 0
        self.ambiguous: list[tuple[str, int]] = []

    def pieces(self) -> Iterator[str]:
        """The text in pieces; line ends inside comments and splices come at the end of their line."""
        code, at, owed, fresh, before = self._code, 0, 0, True, ("", "")
        while at < len(code):
            if fresh and code[at] == "#" and (include := _include(code, at)) is not None:
                end, piece = include
                owed += code.count("\n", at, end)
                yield piece
                at, fresh, before = end, False, ("", "")
                continue
            match = _TOKEN.match(code, at)
            assert match is not None, "the last alternative takes any character"
            kind, text, end = match.lastgroup or "punctuation", match.group(), match.end()
            if kind == "newline":
                owed += self._spliced(end)
                yield "\n" * (owed + 1)
                self._line += owed + 1
                owed, fresh, before = 0, True, ("", "")
            elif kind in ("space", "comment"):
                owed += text.count("\n") if kind == "comment" else 0
                if text.startswith("/*") and not text.endswith("*/", 2):
                    self.ambiguous.append(("a comment that is not closed", self._line))
                yield text.translate(_BLANKS) if kind == "space" else " "
                before = ("", "")
            else:
                token = _token(kind, text, self._line)
                self._examine(token, text, before, at)
                apart = text in _OPERATORS or text in SPELLED
                gap = _gap(token.kind, text, before)
                yield f" {_spelled(token).text} " if apart else gap + token.text
                fresh, before = False, (token.kind, text)
            at = end
        yield "\n" * (owed + self._spliced(len(code) + 1))

    def _spliced(self, end: int) -> int:
        """How many lines were joined before `end`, once each."""
        before, self._paid = self._paid, bisect_left(self._splices, end)
        return self._paid - before

    def _examine(self, token: Token, text: str, before: tuple[str, str], at: int) -> None:
        pattern, what = _PLAIN.get(token.kind, (None, ""))
        if pattern is not None and not pattern.fullmatch(text):
            self.ambiguous.append((what, self._line))
        elif pattern is None and (not text.isascii() or text in "@`\\'\""):
            self.ambiguous.append((f"the character {text[:1]!r} outside a comment", self._line))
        elif pattern is None and _DIGRAPH.match(self._code, at):
            self.ambiguous.append((f"the digraph {self._code[at : at + 2]}", self._line))
        elif token.kind in ("string", "char") and before[0] == "word" and _ENCODING.fullmatch(before[1]):
            self.ambiguous.append((f"a literal with the prefix {before[1]}", self._line))
        elif token.kind == "word" and before[0] in ("string", "char"):
            self.ambiguous.append((f"a literal with the suffix {text}", self._line))


def _gap(kind: Kind, text: str, before: tuple[str, str]) -> str:
    """A blank where two tokens that touch could be read as one, or as a digraph."""
    return " " if {kind, before[0]} <= _PLAIN.keys() or (before[1], text) == ("<", "::") else ""


def _include(code: str, at: int) -> tuple[int, str] | None:
    """Where an `#include` at `at` ends, and the directive as it is written anew; None: another."""
    end = _directive_end(code, at)
    line = directive_tokens(Token("directive", code[at:end], 1))
    if not line or line[0].text != "include":
        return None
    return end, f"#include {_angled(line)}"


def _angled(line: tuple[Token, ...]) -> str:
    """The header of an `#include`, of the table or none at all."""
    name = header_name(line)
    return f"<{name}>" if name in IN_SIDES else ""


def header_name(include: tuple[Token, ...]) -> str:
    """The header that an `#include`'s tokens name; empty if they name none."""
    text = "".join(token.text for token in include[1:])
    return text[1:-1] if text[:1] + text[-1:] in ("<>", '""') else ""


def compiler_text(code: str) -> str:
    """What the compilers get of a side: its tokens, written anew.

    Raises:
        ProblemError: compilers may read the code in two ways; the static check `characters` refuses it.
    """
    result = rewritten(code)
    if result.ambiguous:
        what, line = result.ambiguous[0]
        raise ProblemError(f"line {line}: {what}: compilers may read it in two ways")
    return result.text


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
        changes: list[tuple[int, tuple[int, ...]]] = [(0, ())]
        stack: list[int] = []
        for number, line in enumerate(self.directives, 1):
            word = line[0].text if line else ""
            if word in ("endif", "elif", "else") and stack:
                stack.pop()
            if word in ("if", "ifdef", "ifndef", "elif", "else"):
                stack.append(number)
            if line:
                changes.append((line[0].line, tuple(stack)))
        return changes

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
