"""Calls that a kernel does not need in order to compute, and host code.

Directives are searched too, since a macro's body becomes code. Not covered: spelling tricks
(`checks.spelling`), inline PTX (`checks.assembly`), addresses (`checks.pointers`), state
(`checks.global_state`), padded work (`checks.padded_work`), the lists (`checks.word_lists`).
"""

from __future__ import annotations

from collections.abc import Iterator

from kcurate.judge.checks import word_lists
from kcurate.judge.checks.findings import Finding
from kcurate.judge.checks.lexer import Source, Token, inside_parentheses, matching_bracket
from kcurate.judge.checks.own_names import OwnNames

_SPECIFIED = word_lists.word_set(
    "__launch_bounds__ __cluster_dims__ __maxnreg__ __align__ alignas __attribute__"
)
_CALLS = word_lists.BUILT_IN_CALLS | word_lists.HOST_FUNCTIONS


def calls(source: Source) -> Iterator[Finding]:
    """Sleeps, clocks, traps, the device heap, printf, host functions."""
    own = OwnNames(source, word_lists.HOST_FUNCTIONS)
    for at, token in enumerate(source.plain):
        if _refused_word(source.plain, at) and not (_of_host(token) and own.owns(at)):
            yield Finding("calls", token.text, token.line)
    for line in source.directives:
        for at, token in enumerate(line):
            defined = line[0].text == "define" and _of_host(token) and (at == 1 or own.in_macro(line, at))
            if not defined and _refused_word(line, at, in_directive=True):
                yield Finding("calls", token.text, token.line)


def _of_host(token: Token) -> bool:
    return token.text in word_lists.HOST_FUNCTIONS


def _refused_word(stream: tuple[Token, ...], at: int, *, in_directive: bool = False) -> bool:
    """Whether a word is refused; a name of the host's functions, unless the side declares it."""
    word = stream[at].text
    if stream[at].kind != "word":
        return False
    before = stream[at - 1].text if at else ""
    if word in word_lists.FORBIDDEN_WORDS:
        return True
    if word.startswith(word_lists.FORBIDDEN_PREFIXES) and word not in word_lists.BUILTINS:
        return True
    if word == "delete":
        return before != "="
    if word not in _CALLS or before in (".", "->"):
        return False
    following = stream[at + 1].text if at + 1 < len(stream) else ""
    return in_directive or word not in word_lists.ORDINARY_NAMES or following == "(" or before == "&"


def host(source: Source) -> Iterator[Finding]:
    """Host code, declarations of symbols defined elsewhere, linker attributes."""
    plain = source.plain
    defined = _defined(plain)
    for at, token in enumerate(plain):
        following = [item.text for item in plain[at + 1 : at + 4]]
        if token.text == "<<<":
            yield Finding("host", "a <<<...>>> launch: only the plan launches kernels", token.line)
        elif token.text == "main" and following[:1] == ["("]:
            yield Finding("host", "a main function", token.line)
        elif token.text == "extern" and not _honest_extern(plain, at):
            yield Finding("host", "an extern declaration", token.line)
        elif token.text == "extern" and following[:1] == ['"C"']:
            yield from _undefined(plain, at + 2, defined)
    for stream in source.streams:
        for at, token in enumerate(stream):
            if token.text == "__attribute__":
                for word in inside_parentheses(stream, at + 1):
                    if word.kind == "word" and word.text not in word_lists.ATTRIBUTES:
                        yield Finding("host", f"__attribute__(({word.text}))", word.line)


def _undefined(plain: tuple[Token, ...], at: int, defined: set[str]) -> Iterator[Finding]:
    """Functions that an `extern "C"` declares and the code does not define."""
    block = plain[at].text == "{"
    end = matching_bracket(plain, at, "{", "}") if block else len(plain)
    at += block
    while at < end:
        if plain[at].text == "(":
            name, close = plain[at - 1], matching_bracket(plain, at, "(", ")")
            after = plain[close + 1].text if close + 1 < len(plain) else ";"
            if after == ";" and name.kind == "word" and name.text not in defined:
                yield Finding("host", f"{name.text} is declared but not defined", name.line)
            at = matching_bracket(plain, close + 1, "{", "}") if after == "{" else close
        elif plain[at].text == "{":
            at = matching_bracket(plain, at, "{", "}")
        if not block and at < end and plain[at].text in (";", "}"):
            return
        at += 1


def _defined(plain: tuple[Token, ...]) -> set[str]:
    """The names of all functions with a body."""
    names, open_at = set(), []
    for at, token in enumerate(plain):
        if token.text == "(":
            open_at.append(at)
        elif token.text == ")" and open_at:
            start = open_at.pop()
            if start and at + 1 < len(plain) and plain[at + 1].text == "{":
                names.add(plain[start - 1].text)
    return names


def _honest_extern(plain: tuple[Token, ...], at: int) -> bool:
    """Whether an `extern` is of dynamic shared memory, or gives a function of this file C linkage.

    Specifiers may stand in any order. A function without a body here is found by `_undefined`.
    """
    linkage = [token.text for token in plain[at + 1 : at + 2]] == ['"C"']
    before = next((i for i in range(at - 1, -1, -1) if plain[i].text in (";", "{", "}", ")")), -1)
    called: bool | None = None
    end = at + 1 + linkage
    while end < len(plain) and plain[end].text not in (";", "{", "="):
        if plain[end].text == "(":
            if called is None and plain[end - 1].text not in _SPECIFIED:
                called = end + 1 < len(plain) and plain[end + 1].text not in ("*", "&")
            end = matching_bracket(plain, end, "(", ")")
        end += 1
    words = {token.text for token in plain[before + 1 : end]}
    block = linkage and end == at + 2 and end < len(plain) and plain[end].text == "{"
    return block or "__shared__" in words or (linkage and called is True)
