"""Which names a side declares itself, and where they are visible.

A name is the side's own only in the scope of a declaration: of a variable, parameter, member, enumerator,
template parameter or macro, or of a function with a body. Anything ambiguous is taken not to be a
declaration. Not covered: which names matter (`kcurate.judge.checks.word_lists`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property

from kcurate.judge.checks.lexer import BRACKETS, CLOSING_BRACKETS, Source, Token
from kcurate.judge.checks.word_lists import word_set

# Words that cannot end a type before a declared name.
_NO_TYPES = word_set(
    """
    return else do case goto new delete throw sizeof alignof alignas decltype operator typename using and or
    not xor if for while switch default break continue co_await co_yield co_return typeid noexcept extern
    """
)
_CLASSES = frozenset({"struct", "class", "union"})
_SPECIFIED = frozenset({"alignas", "__align__", "__launch_bounds__", "__attribute__", "decltype"})
_IN_TYPES = frozenset({"::", "*", "&", "&&", "<", ">", ">>", ",", "..."})
_LOOPS = frozenset({"for", "if", "while", "switch", "catch"})


@dataclass(frozen=True)
class _Visible:
    """A name from `start` up to `end` (indices of tokens), in code under the conditions `branch`.

    `scope`: the class, namespace or enumeration that it is directly in, else empty.
    """

    start: int
    end: int
    branch: tuple[int, ...]
    scope: str


@dataclass
class OwnNames:
    """The declarations of some words in a side's code."""

    source: Source
    words: frozenset[str]
    _declarations: dict[str, list[_Visible]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self._balanced_macros:
            for at, token in enumerate(self.source.plain):
                if token.text in self.words and (declaration := self._declaration(at)) is not None:
                    self._declarations.setdefault(token.text, []).append(declaration)

    def owns(self, at: int) -> bool:
        """Whether the word at an index of the plain tokens is the side's own there."""
        tokens = self.source.plain
        declarations = self._declarations_at(tokens[at].text, at)
        if at and tokens[at - 1].text == "::":
            if at > 1 and tokens[at - 2].kind == "word":
                return any(declaration.scope == tokens[at - 2].text for declaration in declarations)
            return any(
                not declaration.scope and declaration.end == len(tokens) and declaration.start <= at
                for declaration in declarations
            )
        return self.macros(tokens[at]) or any(
            declaration.start <= at <= declaration.end or self._is_in_opening(declaration.scope, at)
            for declaration in declarations
        )

    def _declarations_at(self, word: str, at: int) -> list[_Visible]:
        """The declarations of a word that are under no condition but those of the token at an index."""
        branch = self.source.branch(self.source.plain[at].line)
        return [
            declaration
            for declaration in self._declarations.get(word, ())
            if branch[: len(declaration.branch)] == declaration.branch
        ]

    def macros(self, token: Token) -> bool:
        """Whether a word is a macro of the side's, defined before it and under no condition."""
        lines = self._macros.get(token.text, ())
        return any(line < token.line for line in lines)

    def in_macro(self, line: tuple[Token, ...], at: int) -> bool:
        """Whether a word of a macro's body is the side's own wherever the macro is used."""
        name, word = line[1], line[at].text
        if word in {token.text for token in _parameters(line)} or self.macros(line[at]):
            return True
        if any(
            not declaration.scope and declaration.end == len(self.source.plain) and not declaration.branch
            for declaration in self._declarations.get(word, ())
        ):
            return True
        nested = [other for other in self.source.directives if any(t.text == name.text for t in other[2:])]
        uses = [i for i, token in enumerate(self.source.plain) if token.text == name.text]
        return (
            bool(uses)
            and not nested
            and all(
                any(
                    declaration.start <= i <= declaration.end
                    for declaration in self._declarations_at(word, i)
                )
                for i in uses
            )
        )

    @cached_property
    def _balanced_macros(self) -> bool:
        """Whether every macro has balanced brackets, so that brackets in the code can be trusted."""
        texts = ([token.text for token in line] for line in self.source.directives)
        return all(
            line.count(opening) == line.count(closing)
            for line in texts
            for opening, closing in BRACKETS.items()
        )

    @cached_property
    def _macros(self) -> Mapping[str, list[int]]:
        lines_by_name: dict[str, list[int]] = {}
        undefined = {
            line[1].text for line in self.source.directives if len(line) > 1 and line[0].text == "undef"
        }
        for line in self.source.directives:
            defines = len(line) > 1 and line[0].text == "define" and line[1].text not in undefined
            if defines and not self.source.branch(line[0].line):
                lines_by_name.setdefault(line[1].text, []).append(line[0].line)
        return lines_by_name

    def _start(self, at: int) -> int:
        """The index at which the statement, parameter or member around a token starts."""
        inside, start = self.source.around[at], at
        while start - 1 > inside:
            before = self.source.plain[start - 1]
            opens = self.source.around[start - 1]
            if (opens == inside and before.text == ";") or (before.text == "}" and inside == opens):
                break
            start -= 1
        return start

    def _head(self, brace: int) -> list[Token]:
        """The tokens before a brace in its statement, outside other brackets."""
        start, inside = self._start(brace), self.source.around[brace]
        return [self.source.plain[i] for i in range(start, brace) if self.source.around[i] == inside]

    def _scope_name(self, brace: int) -> str:
        """The class, namespace or enumeration whose body a brace opens, else empty."""
        head = [token.text for token in self._head(brace)]
        words = [i for i, text in enumerate(head) if text in (*_CLASSES, "namespace", "enum")]
        if not words or (")" in head and "(" in head and head[-1] == ")"):
            return ""
        names = [text for text in head[words[-1] + 1 :] if text not in ("class", "struct", "final", "inline")]
        return names[0] if names and names[0] not in (":", "{") else "?"

    def _links_to_c(self, brace: int) -> bool:
        return brace >= 0 and [token.text for token in self._head(brace)] == ["extern", '"C"']

    def _declaration(self, at: int) -> _Visible | None:
        """Where the word at an index is visible, if it is declared there; else None."""
        tokens, inside = self.source.plain, self.source.around[at]
        following = tokens[at + 1].text if at + 1 < len(tokens) else ";"
        branch = self.source.branch(tokens[at].line)
        opening = tokens[inside].text if inside >= 0 else "{"
        if opening == "{":
            named = self._scope_name(inside) if inside >= 0 else ""
            if inside >= 0 and self._is_enum(inside) and tokens[at - 1].text in ("{", ","):
                if {"class", "struct"} & {token.text for token in self._head(inside)}:
                    return self._within(at, inside, named, branch)
                return self._within(at, self.source.around[inside], named, branch)
            if not self._is_declarator(at, following):
                return None
            start = inside if named and self._is_class(inside) else at
            return self._within(start, inside, named, branch)
        if opening == "(" and self._is_declarator(at, following) and following != "(":
            end = self._scope_after(inside)  # of a declaration: nowhere else
            return _Visible(at, at if end is None else end, branch, "")
        if opening == "[" and tokens[inside - 1].text in ("auto", "&", "const") and following in (",", "]"):
            outer = self.source.around[inside]
            return self._within(at, outer, "", branch) if outer < 0 or tokens[outer].text == "{" else None
        return None

    def _within(self, start: int, brace: int, named: str, branch: tuple[int, ...]) -> _Visible:
        """Visible up to the end of a block; a block of C linkage is no scope."""
        while self._links_to_c(brace):
            brace = self.source.around[brace]
        end = self.source.closes[brace] if brace >= 0 else len(self.source.plain)
        return _Visible(start, end, branch, named)

    def _is_enum(self, brace: int) -> bool:
        return any(token.text == "enum" for token in self._head(brace))

    def _is_class(self, brace: int) -> bool:
        return any(token.text in _CLASSES for token in self._head(brace))

    def _is_declarator(self, at: int, following: str) -> bool:
        """Whether the tokens before and after a name make it the name that a declaration declares."""
        tokens, start = self.source.plain, self._start(at)
        before = tokens[at - 1] if at else None
        if before is None or at == start:
            return False
        if before.text in _CLASSES or before.text in ("namespace", "enum"):
            return following in ("{", ":", ";", "final")
        if before.text == "using":
            return following == "="
        if before.text == "::" and tokens[start].text == "using" and at == start + 3:
            return any(
                declaration.scope == tokens[start + 1].text
                for declaration in self._declarations.get(tokens[at].text, ())
            )
        if following == "(":
            return self._is_type(start, at) and self._is_function(at)
        if following not in ("=", ";", ",", ")", "[", "{", ":", ">"):
            return False
        if before.text == "*" and tokens[at - 2].text == "(" and following == ")":
            return self._is_type(self._start(at - 2), at - 2)
        return self._is_type(self._after_comma(at, start), at) or self._continues(at, start)

    def _after_comma(self, at: int, start: int) -> int:
        """The start of the parameter around a name; outside parentheses, that of the statement."""
        inside = self.source.around[at]
        if inside < 0 or self.source.plain[inside].text != "(":
            return start
        around, tokens = self.source.around, self.source.plain
        commas = [i for i in range(start, at) if around[i] == inside and tokens[i].text == ","]
        return commas[-1] + 1 if commas else start

    def _continues(self, at: int, start: int) -> bool:
        """Whether a name is a further declarator: `float a = 1, *name;`."""
        inside, tokens = self.source.around[at], self.source.plain
        marks = [
            i for i in range(start, at) if self.source.around[i] == inside and tokens[i].text in (",", "=")
        ]
        plain = all(tokens[i].text in ("*", "&") for i in range(marks[-1] + 1, at)) if marks else False
        if not plain or tokens[marks[-1]].text != ",":
            return False
        names = [
            i for i in range(start, marks[0]) if self.source.around[i] == inside and tokens[i].kind == "word"
        ]
        return (
            len(names) > 1
            and self._is_type(start, names[-1])
            and tokens[names[-1] + 1].text in (",", "=", "[", "{")
        )

    def _is_type(self, start: int, at: int) -> bool:
        """Whether the tokens from `start` up to `at` are a type and specifiers, and no expression."""
        tokens, words, i = self.source.plain, 0, start
        while i < at:
            token = tokens[i]
            if token.text == "template" and i + 1 < at and tokens[i + 1].text == "<":
                words += 1
            elif token.text in _SPECIFIED and i + 1 < at and tokens[i + 1].text == "(":
                i = self.source.closes[i + 1]
            elif token.text == "[":
                i = self.source.closes[i]
            elif token.kind == "word":
                if token.text in _NO_TYPES - {"typename", "extern"} or not self._plain_macro(token.text):
                    return False
                words += self._is_word(token.text)
            elif token.kind == "number" or token.text == '"C"':
                if token.kind != "number":
                    return False
            elif token.text not in _IN_TYPES:
                return False
            i += 1
        last_text = tokens[at - 1].text
        return bool(words) and (
            tokens[at - 1].kind == "word" or last_text in ("*", "&", "&&", ">", ">>", "]", ")", "...")
        )

    def _bodies(self, word: str) -> list[tuple[Token, ...]]:
        """The replacement of a macro, in each of its definitions."""
        return [
            line[2:]
            for line in self.source.directives
            if len(line) > 1 and line[0].text == "define" and line[1].text == word
        ]

    def _is_word(self, word: str) -> bool:
        """Whether a word still is one after macro expansion."""
        return all(any(token.kind == "word" for token in body) for body in self._bodies(word))

    def _plain_macro(self, word: str) -> bool:
        """Whether a word is no macro, or a macro that expands to parts of a type."""
        bodies = self._bodies(word)
        safe = _NO_TYPES | {"typedef", "friend"}
        return all(
            (token.kind in ("word", "number") and token.text not in safe)
            or token.text in ("*", "&", "<", ">", "(", ")")
            for body in bodies
            for token in body
        )

    def _is_function(self, at: int) -> bool:
        """Whether `name(` begins a function with a body, or a variable with its value in parentheses."""
        tokens, inside = self.source.plain, self.source.around[at]
        closed = self.source.closes[at + 1]
        if inside >= 0 and not self._scope_name(inside) and not self._links_to_c(inside):
            values = tokens[at + 2 : closed]
            texts = ("[", ".", "->", "(")
            return any(token.kind in ("number", "string") or token.text in texts for token in values)
        if self._links_to_c(inside) or any(token.text == '"C"' for token in tokens[self._start(at) : at]):
            return False  # another of that name would be the same function
        end = closed + 1
        while end < len(tokens) and tokens[end].text not in ("{", ";", "=", ","):
            end = self.source.closes[end] + 1 if tokens[end].text in BRACKETS else end + 1
        if end < len(tokens) and tokens[end].text == ";":
            return any(self._defines(i, tokens[at].text) for i in range(end, len(tokens) - 1))
        return end < len(tokens) and tokens[end].text == "{"

    def _defines(self, at: int, word: str) -> bool:
        """Whether the body of a function of that name begins after the parenthesis at `at + 1`."""
        tokens = self.source.plain
        if tokens[at].text != word or tokens[at + 1].text != "(" or self.source.around[at] >= 0:
            return False
        after = self.source.closes[at + 1] + 1
        return after < len(tokens) and tokens[after].text == "{"

    def _scope_after(self, opening: int) -> int | None:
        """The end of the scope of names declared in a parenthesis: a body, or the statement of a loop."""
        tokens = self.source.plain
        looped = opening > 0 and tokens[opening - 1].text in _LOOPS
        at = self.source.closes[opening] + 1
        while at < len(tokens):
            text = tokens[at].text
            if text == "{":
                return self.source.closes[at]
            if text == ";" or text in CLOSING_BRACKETS:
                return at if looped and text == ";" else None
            at = self.source.closes[at] + 1 if text in BRACKETS else at + 1
        return None

    def _is_in_opening(self, scope: str, at: int) -> bool:
        """Whether a token is where the members of a class or namespace are visible unqualified."""
        return bool(scope) and any(start <= at <= end for start, end in self._openings.get(scope, ()))

    @cached_property
    def _openings(self) -> Mapping[str, list[tuple[int, int]]]:
        """By class or namespace: the token ranges of its bodies, outside members and `using namespace`."""
        ranges_by_name: dict[str, list[tuple[int, int]]] = {}
        tokens = self.source.plain
        for at, token in enumerate(tokens):
            if token.text == "{":
                head = self._head(at)
                for i, word in enumerate(head):
                    if word.kind == "word" and self._enters([word_token.text for word_token in head], i):
                        ranges_by_name.setdefault(word.text, []).append((at, self.source.closes[at]))
            elif token.text == "using" and tokens[at + 1 : at + 2] and tokens[at + 1].text == "namespace":
                inside = self.source.around[at]
                end = self.source.closes[inside] if inside >= 0 else len(tokens)
                ranges_by_name.setdefault(tokens[at + 2].text if at + 2 < len(tokens) else "", []).append(
                    (at, end)
                )
        return ranges_by_name

    @staticmethod
    def _enters(head: list[str], at: int) -> bool:
        """Whether a body whose head has a word at `at` sees that word's members: it is its name or a base, or
        the class of the function.
        """
        kinds = [i for i, text in enumerate(head[:at]) if text in (*_CLASSES, "namespace")]
        if kinds and "(" not in head:
            return at == kinds[-1] + 1 or ":" in head[kinds[-1] : at]
        return at + 3 < len(head) and head[at + 1] == "::" and head[at + 3] == "("


def _parameters(line: tuple[Token, ...]) -> Iterator[Token]:
    """The parameters of a macro's definition."""
    if len(line) > 2 and line[2].text == "(":
        for token in line[3:]:
            if token.text == ")":
                return
            yield token
