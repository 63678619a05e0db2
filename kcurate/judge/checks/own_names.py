"""Which names a side declares itself, and where they are visible.

A name is the side's own only inside the scope of a declaration: a variable, parameter, member, enumerator,
template parameter, macro, or a function with a body. What the walk cannot tell is no declaration. Not
covered: which names matter (`kcurate.judge.checks.word_lists`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property

from kcurate.judge.checks.lexer import BRACKETS, CLOSING_BRACKETS, Source, Token
from kcurate.judge.checks.word_lists import word_set

# Words before a name that no type ends with.
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
    _found: dict[str, list[_Visible]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self._trusted:
            for at, token in enumerate(self.source.plain):
                if token.text in self.words and (place := self._declared(at)) is not None:
                    self._found.setdefault(token.text, []).append(place)

    def owns(self, at: int) -> bool:
        """Whether the word at an index of the plain tokens is the side's own there."""
        tokens = self.source.plain
        places = self._places(tokens[at].text, at)
        if at and tokens[at - 1].text == "::":
            if at > 1 and tokens[at - 2].kind == "word":
                return any(one.scope == tokens[at - 2].text for one in places)
            return any(not one.scope and one.end == len(tokens) and one.start <= at for one in places)
        return self.macros(tokens[at]) or any(
            one.start <= at <= one.end or self._opened(one.scope, at) for one in places
        )

    def _places(self, word: str, at: int) -> list[_Visible]:
        """The declarations of a word that are under no condition but those of the token at an index."""
        branch = self.source.branch(self.source.plain[at].line)
        return [one for one in self._found.get(word, ()) if branch[: len(one.branch)] == one.branch]

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
            not one.scope and one.end == len(self.source.plain) and not one.branch
            for one in self._found.get(word, ())
        ):
            return True
        nested = [other for other in self.source.directives if any(t.text == name.text for t in other[2:])]
        uses = [i for i, token in enumerate(self.source.plain) if token.text == name.text]
        return (
            bool(uses)
            and not nested
            and all(any(one.start <= i <= one.end for one in self._places(word, i)) for i in uses)
        )

    @cached_property
    def _trusted(self) -> bool:
        """Whether brackets are what they look like: no macro opens or closes one alone."""
        texts = ([token.text for token in line] for line in self.source.directives)
        return all(
            line.count(first) == line.count(last) for line in texts for first, last in BRACKETS.items()
        )

    @cached_property
    def _macros(self) -> Mapping[str, list[int]]:
        found: dict[str, list[int]] = {}
        undefined = {
            line[1].text for line in self.source.directives if len(line) > 1 and line[0].text == "undef"
        }
        for line in self.source.directives:
            defines = len(line) > 1 and line[0].text == "define" and line[1].text not in undefined
            if defines and not self.source.branch(line[0].line):
                found.setdefault(line[1].text, []).append(line[0].line)
        return found

    def _start(self, at: int) -> int:
        """Where the statement, parameter or member that a token is in starts."""
        inside, first = self.source.around[at], at
        while first - 1 > inside:
            before = self.source.plain[first - 1]
            opens = self.source.around[first - 1]
            if (opens == inside and before.text == ";") or (before.text == "}" and inside == opens):
                break
            first -= 1
        return first

    def _head(self, brace: int) -> list[Token]:
        """What stands before a brace in its statement, outside brackets."""
        first, inside = self._start(brace), self.source.around[brace]
        return [self.source.plain[i] for i in range(first, brace) if self.source.around[i] == inside]

    def _named(self, brace: int) -> str:
        """The class, namespace or enumeration whose body a brace opens, else empty."""
        head = [token.text for token in self._head(brace)]
        words = [i for i, text in enumerate(head) if text in (*_CLASSES, "namespace", "enum")]
        if not words or (")" in head and "(" in head and head[-1] == ")"):
            return ""
        rest = [text for text in head[words[-1] + 1 :] if text not in ("class", "struct", "final", "inline")]
        return rest[0] if rest and rest[0] not in (":", "{") else "?"

    def _links_to_c(self, brace: int) -> bool:
        return brace >= 0 and [token.text for token in self._head(brace)] == ["extern", '"C"']

    def _declared(self, at: int) -> _Visible | None:
        """Where the word at an index is visible, if it is declared there."""
        tokens, inside = self.source.plain, self.source.around[at]
        following = tokens[at + 1].text if at + 1 < len(tokens) else ";"
        branch = self.source.branch(tokens[at].line)
        opening = tokens[inside].text if inside >= 0 else "{"
        if opening == "{":
            named = self._named(inside) if inside >= 0 else ""
            if inside >= 0 and self._is_enum(inside) and tokens[at - 1].text in ("{", ","):
                if {"class", "struct"} & {token.text for token in self._head(inside)}:
                    return self._within(at, inside, named, branch)
                return self._within(at, self.source.around[inside], named, branch)
            if not self._introduced(at, following):
                return None
            start = inside if named and self._is_class(inside) else at
            return self._within(start, inside, named, branch)
        if opening == "(" and self._introduced(at, following) and following != "(":
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

    def _introduced(self, at: int, following: str) -> bool:
        """Whether what stands before a name makes it a declaration's, given what follows it."""
        tokens, first = self.source.plain, self._start(at)
        before = tokens[at - 1] if at else None
        if before is None or at == first:
            return False
        if before.text in _CLASSES or before.text in ("namespace", "enum"):
            return following in ("{", ":", ";", "final")
        if before.text == "using":
            return following == "="
        if before.text == "::" and tokens[first].text == "using" and at == first + 3:
            return any(one.scope == tokens[first + 1].text for one in self._found.get(tokens[at].text, ()))
        if following == "(":
            return self._is_type(first, at) and self._is_function(at)
        if following not in ("=", ";", ",", ")", "[", "{", ":", ">"):
            return False
        if before.text == "*" and tokens[at - 2].text == "(" and following == ")":
            return self._is_type(self._start(at - 2), at - 2)
        return self._is_type(self._after_comma(at, first), at) or self._continues(at, first)

    def _after_comma(self, at: int, first: int) -> int:
        """Where the parameter starts that a name is in; the statement outside parentheses."""
        inside = self.source.around[at]
        if inside < 0 or self.source.plain[inside].text != "(":
            return first
        around, tokens = self.source.around, self.source.plain
        commas = [i for i in range(first, at) if around[i] == inside and tokens[i].text == ","]
        return commas[-1] + 1 if commas else first

    def _continues(self, at: int, first: int) -> bool:
        """Whether a name is a further declarator: `float a = 1, *name;`."""
        inside, tokens = self.source.around[at], self.source.plain
        marks = [
            i for i in range(first, at) if self.source.around[i] == inside and tokens[i].text in (",", "=")
        ]
        plain = all(tokens[i].text in ("*", "&") for i in range(marks[-1] + 1, at)) if marks else False
        if not plain or tokens[marks[-1]].text != ",":
            return False
        names = [
            i for i in range(first, marks[0]) if self.source.around[i] == inside and tokens[i].kind == "word"
        ]
        return (
            len(names) > 1
            and self._is_type(first, names[-1])
            and tokens[names[-1] + 1].text in (",", "=", "[", "{")
        )

    def _is_type(self, first: int, at: int) -> bool:
        """Whether the tokens from `first` up to `at` are a type and specifiers, and no expression."""
        tokens, words, i = self.source.plain, 0, first
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
        last = tokens[at - 1].text
        return bool(words) and (
            tokens[at - 1].kind == "word" or last in ("*", "&", "&&", ">", ">>", "]", ")", "...")
        )

    def _bodies(self, word: str) -> list[tuple[Token, ...]]:
        """What a macro stands for, wherever it is defined."""
        return [
            line[2:]
            for line in self.source.directives
            if len(line) > 1 and line[0].text == "define" and line[1].text == word
        ]

    def _is_word(self, word: str) -> bool:
        """Whether a word, or every macro of that name, leaves a word."""
        return all(any(token.kind == "word" for token in body) for body in self._bodies(word))

    def _plain_macro(self, word: str) -> bool:
        """Whether a word is no macro, or one that stands for words of a type."""
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
        if inside >= 0 and not self._named(inside) and not self._links_to_c(inside):
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
        """Up to where names in a parenthesis are visible: a body, or the statement of a loop."""
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

    def _opened(self, scope: str, at: int) -> bool:
        """Whether a token lies where a class's or namespace's names are visible without its name."""
        return bool(scope) and any(start <= at <= end for start, end in self._openings.get(scope, ()))

    @cached_property
    def _openings(self) -> Mapping[str, list[tuple[int, int]]]:
        """Of each class or namespace: its further bodies, members outside them, and `using namespace`."""
        found: dict[str, list[tuple[int, int]]] = {}
        tokens = self.source.plain
        for at, token in enumerate(tokens):
            if token.text == "{":
                head = self._head(at)
                for i, word in enumerate(head):
                    if word.kind == "word" and self._enters([one.text for one in head], i):
                        found.setdefault(word.text, []).append((at, self.source.closes[at]))
            elif token.text == "using" and tokens[at + 1 : at + 2] and tokens[at + 1].text == "namespace":
                inside = self.source.around[at]
                end = self.source.closes[inside] if inside >= 0 else len(tokens)
                found.setdefault(tokens[at + 2].text if at + 2 < len(tokens) else "", []).append((at, end))
        return found

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
