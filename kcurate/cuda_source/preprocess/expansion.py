"""Expands macros, in `#if` lines and in code.

Covered are object-like, function-like and variadic macros, `#`, `##`, `defined` and `__has_*`. A macro's body
is the bytes behind its name in the `#define`; that of a function-like macro begins with `(`. Not covered, and
raised as an error: `__VA_OPT__`, names outside ASCII, and macros whose value depends on the place
(`__LINE__`).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

from kcurate.cuda_source.text.brackets import closing
from kcurate.cuda_source.text.tokens import DIRECTIVE, IDENTIFIER, REST_OF_LINE, directives, tokens

_ALTERNATIVES = {
    b"and": b"&&", b"or": b"||", b"not": b"!", b"bitand": b"&", b"bitor": b"|", b"xor": b"^", b"compl": b"~",
    b"not_eq": b"!=", b"and_eq": b"&=", b"or_eq": b"|=", b"xor_eq": b"^=",
}  # fmt: skip

# The answers of g++ 12 to `__has_cpp_attribute`; below, GNU attributes and built-ins that it has.
_STANDARD_ATTRIBUTES = {
    b"noreturn": b"200809", b"deprecated": b"201309", b"fallthrough": b"201603", b"maybe_unused": b"201603",
    b"likely": b"201803", b"unlikely": b"201803", b"no_unique_address": b"201803", b"nodiscard": b"201907",
}  # fmt: skip
_GNU = frozenset(
    b"aligned always_inline cold const constructor format hot may_alias noinline packed pure unused used "
    b"visibility weak __builtin_bit_cast __builtin_clz __builtin_constant_p __builtin_ctz __builtin_expect "
    b"__builtin_is_constant_evaluated __builtin_memcpy __builtin_popcount __builtin_trap "
    b"__builtin_unreachable".split()
)
_HEADER = re.compile(rb'<[^>]+>|"[^"]+"')
_INCLUDE, _BUILTIN = b"__has_include", b"__has_builtin"
_QUESTIONS = frozenset((_INCLUDE, _BUILTIN, b"__has_cpp_attribute", b"__has_attribute"))
_MOVING = frozenset(
    b"__LINE__ __COUNTER__ __INCLUDE_LEVEL__ __FILE__ __BASE_FILE__ __DATE__ __TIME__ __TIMESTAMP__ "
    b"__has_include_next".split()
)
# Macros that the compiler implements itself; each has its own name as its body here.
BUILT_IN: dict[bytes, bytes] = {name: name for name in sorted(_QUESTIONS | _MOVING)}
_DEFINE = re.compile(rf"[ \t]*#[ \t]*define[ \t]+([A-Za-z_]\w*)({REST_OF_LINE})".encode())
_OPENING = re.compile(rb"\s*\(")
# The body of an object-like macro that is more than an expression, so that the macro has to be expanded.
_STRUCTURE = re.compile(
    rb"[\[={;]|\b(?:__global__|void|extern|template|typedef|namespace)\b"
    rb"|\A\s*(?:(?:__\w+__|const|static|inline|unsigned|float|double|int|char)\b\s*)+\Z"
)
# Bounds against macros that expand exponentially: bytes of one text, tokens and depth of one expansion.
MAX_EXPANDED_BYTES = 1 << 21
MAX_TOKENS = 20_000
MAX_DEPTH = 40

# A token, and the macros whose expansion gave it: these are not expanded in it again.
Token = tuple[bytes, frozenset[bytes]]
# Whether a header, given as `"name"` or `<name>`, is known to exist.
HasHeader = Callable[[bytes], bool]


class Definition(NamedTuple):
    """A `#define`: its body, parameters included, on one line; and the offset at which the directive ends."""

    name: bytes
    body: bytes
    end: int


def definition(text: bytes, start: int = 0) -> Definition | None:
    """The `#define` that begins at byte `start`; None: there is none."""
    match = _DEFINE.match(text, start)
    return match and Definition(match[1], re.sub(rb"\\\r?\n", b" ", match[2]).rstrip(), match.end())


@lru_cache(maxsize=4)  # several readers ask for the macros of one text
def definitions(text: bytes) -> tuple[Definition, ...]:
    """Every `#define` of a text without comments, in order."""
    return tuple(filter(None, (definition(text, line.start()) for line in directives(text))))


class UnevaluatedError(Exception):
    """A condition has no value that can be known here; the message says why."""


@dataclass(frozen=True)
class _Macro:
    """A parsed macro definition. `parameters` is None for an object-like macro.

    `groups` are the words of the body. Words joined by `##` form one group, and `#x` is one word: the body `a
    ## b + #a` has the groups (a, b), (+), (#a).
    """

    parameters: tuple[bytes, ...] | None
    variadic: bool
    groups: tuple[tuple[bytes, ...], ...]


def _tokens(text: bytes) -> list[bytes]:
    """The tokens of a text without comments, alternative spellings replaced: `and` is `&&`."""
    return [_ALTERNATIVES.get(token, token) for token in tokens(text)]


@lru_cache(maxsize=1024)
def _macro(definition: bytes) -> _Macro:
    words, parameters, variadic = _tokens(definition), None, False
    if definition[:1] == b"(":
        if b")" not in words:
            raise UnevaluatedError("a macro's parameters do not end")
        head, words = words[1 : words.index(b")")], words[words.index(b")") + 1 :]
        variadic = head[-1:] == [b"..."]
        names = [word for word in head if word not in (b",", b"...")]
        unnamed = variadic and head[-2:-1] in ([], [b","])
        parameters = (*names, b"__VA_ARGS__") if unnamed else tuple(names)
    groups: list[tuple[bytes, ...]] = []
    pasting = False
    for at, word in enumerate(words):
        if word == b"#" and parameters and words[at + 1 : at + 2] and words[at + 1] in parameters:
            words[at + 1] = b"#" + words[at + 1]
        elif word == b"##":
            pasting = True
        else:
            groups.append((*groups.pop(), word) if pasting and groups else (word,))
            pasting = False
    if pasting or words[:1] == [b"##"] or b"__VA_OPT__" in words:
        raise UnevaluatedError("a macro's body is not understood")
    return _Macro(parameters, variadic, tuple(groups))


@dataclass
class _Expander:
    macros: Mapping[bytes, bytes]
    has_header: HasHeader
    budget: int = MAX_TOKENS
    depth: int = 0

    def expand(self, tokens_in: Iterable[Token], argument: bool = False) -> list[Token]:
        """All tokens with macros expanded.

        In a macro argument, `defined` is an ordinary name, as in g++.
        """
        todo, out = [*tokens_in][::-1], list[Token]()
        while todo:
            self.spend(1)
            text, hidden = todo.pop()
            if text == b"defined" and not argument:
                out.append((self.defined(todo), hidden))
            elif text in hidden or text not in self.macros:
                out.append((text, hidden))
            elif self.macros[text] == BUILT_IN.get(text):
                out.append((self.answer(text, todo), hidden))
            else:
                macro = _macro(self.macros[text])
                if macro.parameters is None:
                    todo += self.replaced(macro, {}, hidden | {text})[::-1]
                elif todo and todo[-1][0] == b"(":
                    inner, last = _bracketed(todo)
                    argument_of = _arguments(macro.parameters, macro.variadic, inner)
                    todo += self.replaced(macro, argument_of, (hidden & last) | {text})[::-1]
                else:
                    out.append((text, hidden))
        return out

    def spend(self, count: int) -> None:
        self.budget -= count
        if self.budget < 0 or self.depth > MAX_DEPTH:
            raise UnevaluatedError("its macros expand to too much")

    def defined(self, todo: list[Token]) -> bytes:
        if todo and todo[-1][0] == b"(":
            names = [word for word, _ in _bracketed(todo)[0]]
        else:
            names = [todo.pop()[0]] if todo else []
        if len(names) != 1 or not IDENTIFIER.fullmatch(names[0]):
            raise UnevaluatedError("defined without a name")
        return b"1" if names[0] in self.macros else b"0"

    def answer(self, question: bytes, todo: list[Token]) -> bytes:
        """The value of a `__has_...` query; its parenthesised argument is taken off `todo`."""
        if question not in _QUESTIONS or not todo or todo[-1][0] != b"(":
            raise UnevaluatedError(f"the value of {question.decode()} is not known")
        words, _ = _bracketed(todo)
        if words and words[0][0][:1] not in (b"<", b'"'):
            words = self.expand(words, argument=True)
        text = b"".join(word for word, _ in words)
        if question == _INCLUDE:
            reply = b"1" if _HEADER.fullmatch(text) and self.has_header(text) else None
        elif question == _BUILTIN:
            reply = b"1" if text in _GNU else None
        else:
            scope, _, name = text.replace(b"__", b"").rpartition(b"::")
            reply = b"0" if scope not in (b"", b"gnu") else b"1" if name in _GNU else None
            reply = reply if scope else _STANDARD_ATTRIBUTES.get(name, reply)
        if reply is None:
            asked = text.decode("utf-8", "replace")
            raise UnevaluatedError(f"{question.decode()}({asked}) depends on the machine")
        return reply

    def replaced(
        self, macro: _Macro, arguments: Mapping[bytes, list[Token]], hidden: frozenset[bytes]
    ) -> list[Token]:
        """The body of a macro with its arguments substituted."""
        out: list[Token] = []
        for group in macro.groups:
            joined: list[Token] = []
            for at, word in enumerate(group):
                part = self.part(word, arguments, whole=len(group) == 1)
                if at and group[at - 1] == b"," and macro.variadic and word == (macro.parameters or ())[-1]:
                    joined = joined + part if part else joined[:-1]  # GNU's `, ## __VA_ARGS__`
                elif joined and part:
                    joined = [*joined[:-1], _pasted(joined[-1], part[0]), *part[1:]]
                else:
                    joined += part
            self.spend(len(joined))
            out += [(text, origins | hidden) for text, origins in joined]
        return out

    def part(self, word: bytes, arguments: Mapping[bytes, list[Token]], whole: bool) -> list[Token]:
        """The tokens for one word of a body; an argument that is not an operand of `##` is expanded first."""
        if word[:1] == b"#" and word[1:] in arguments:
            return [(b'"' + b"".join(text for text, _ in arguments[word[1:]]) + b'"', frozenset())]
        if word not in arguments or not whole:
            return arguments.get(word, [(word, frozenset())])
        self.depth += 1
        expanded = self.expand(arguments[word], argument=True)
        self.depth -= 1
        return expanded


def _bracketed(todo: list[Token]) -> tuple[list[Token], frozenset[bytes]]:
    """Take the parentheses on top of `todo` off it; returns the tokens inside, and the `)`'s origins."""
    inner, depth = list[Token](), 0
    while todo:
        token = todo.pop()
        depth += (token[0] == b"(") - (token[0] == b")")
        if depth == 0:
            return inner[1:], token[1]
        inner.append(token)
    raise UnevaluatedError("a bracket is not closed")


def _arguments(names: tuple[bytes, ...], variadic: bool, inner: list[Token]) -> dict[bytes, list[Token]]:
    parts: list[list[Token]] = [[]]
    depth = 0
    for token in inner:
        depth += (token[0] == b"(") - (token[0] == b")")
        if token[0] == b"," and depth == 0 and not (variadic and len(parts) == len(names)):
            parts.append([])
        else:
            parts[-1].append(token)
    if variadic and len(parts) == len(names) - 1:
        parts.append([])
    if len(parts) != len(names) and (names or inner):
        raise UnevaluatedError(f"a macro with {len(names)} parameters is given {len(parts)} arguments")
    return dict(zip(names, parts, strict=False))


def _pasted(left: Token, right: Token) -> Token:
    text = left[0] + right[0]
    if len(_tokens(text)) != 1:
        raise UnevaluatedError(f"## makes no token: {text.decode('utf-8', 'replace')}")
    return text, left[1] & right[1]


def expanded(
    text: bytes, macros: Mapping[bytes, bytes], has_header: HasHeader = lambda _: False
) -> list[bytes]:
    """The tokens of a condition with its macros expanded; `defined` and `__has_...` become numbers.

    Raises:
        UnevaluatedError: a macro is not understood, or a query has no known answer.
    """
    start: list[Token] = [(token, frozenset()) for token in _tokens(text)]
    return [token for token, _ in _Expander(macros, has_header).expand(start)]


def expanded_text(text: bytes, macros: Mapping[bytes, bytes]) -> bytes | None:
    """The tokens of `expanded` joined to one line; None: a macro is not understood."""
    try:
        return b" ".join(expanded(text, macros))
    except UnevaluatedError:
        return None


def without_macros(text: bytes) -> tuple[bytes, Mapping[str, str]]:
    """The text without directives and with its macros expanded; and the body of each object-like macro.

    Object-like macros whose body is an expression stay names in the text, since they may be sizes.
    """
    macros = {definition.name: definition.body for definition in definitions(text)}
    kept_names = {
        n for n, body in macros.items() if body[:1] != b"(" and body.strip() and not _STRUCTURE.search(body)
    }
    bodies_to_expand = {name: body for name, body in macros.items() if name not in kept_names}
    text = _expanded_in(DIRECTIVE.sub(b" ", text), bodies_to_expand)
    plain = {
        n.decode(): _expanded_in(body.strip(), bodies_to_expand)
        for n, body in macros.items()
        if body[:1] != b"("
    }
    return text, {name: body.decode("latin-1") for name, body in plain.items() if body}


def _expanded_in(text: bytes, macros: Mapping[bytes, bytes]) -> bytes:
    """The text with these macros expanded; a call that cannot be expanded stays as it is."""
    out, at, size = list[bytes](), 0, 0
    for match in IDENTIFIER.finditer(text) if macros else ():
        body = macros.get(match[0])
        if body is None or match.start() < at or size > MAX_EXPANDED_BYTES:
            continue
        end: int | None = match.end()
        if body[:1] == b"(":
            opening = _OPENING.match(text, match.end())
            end = closing(text, opening.end() - 1) if opening else None
        if end is None:
            continue
        expansion = expanded_text(text[match.start() : end], macros)
        if expansion is not None:
            out += [text[at : match.start()], expansion]
            at, size = end, size + len(expansion)
    return b"".join([*out, text[at:]])
