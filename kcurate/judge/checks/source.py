"""Calls that a kernel does not need in order to compute, and host code.

Directives are searched too, since a macro's body becomes code. Not covered: spelling tricks
(`checks.spelling`), inline PTX (`checks.assembly`), addresses (`checks.pointers`), state
(`checks.global_state`), sham work (`checks.sham_work`), the lists (`checks.word_lists`).
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
    own_names = OwnNames(source, word_lists.HOST_FUNCTIONS | word_lists.ORDINARY_NAMES)
    for at, token in enumerate(source.plain):
        if _refused_word(source.plain, at) and not _excused(own_names, at):
            yield Finding("calls", token.text, token.line)
    for line in source.directives:
        for at, token in enumerate(line):
            named = line[0].text == "define" and token.text in word_lists.HOST_FUNCTIONS
            if _refused_word(line, at) and not (named and (at == 1 or own_names.in_macro(line, at))):
                yield Finding("calls", token.text, token.line)


def _excused(own_names: OwnNames, at: int) -> bool:
    """Whether a refused word is a name that the side declares, or a label."""
    plain = own_names.source.plain
    word, before = plain[at].text, plain[at - 1].text if at else ""
    following = plain[at + 1].text if at + 1 < len(plain) else ""
    if word not in own_names.words:
        return False
    if before == "goto" or (following == ":" and before in (";", "{", "}")):
        return True
    called = word in word_lists.ORDINARY_NAMES and (following == "(" or before == "&")
    return not called and own_names.owns(at)


def _refused_word(stream: tuple[Token, ...], at: int) -> bool:
    """Whether a word is refused; a name of the host's functions, unless the side declares it."""
    word = stream[at].text
    if stream[at].kind != "word":
        return False
    before = stream[at - 1].text if at else ""
    if word in word_lists.FORBIDDEN_WORDS:
        return True
    if word.startswith(word_lists.FORBIDDEN_PREFIXES) and word not in word_lists.ALLOWED_BUILTINS:
        return True
    if word == "delete":
        return before != "="
    return word in _CALLS and before not in (".", "->")


def host(source: Source) -> Iterator[Finding]:
    """Host code, declarations of symbols defined elsewhere, linker attributes."""
    plain = source.plain
    defined = _defined(source)
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
    yield from _attributes(source)


def _attributes(source: Source) -> Iterator[Finding]:
    """Attributes that are not on the lists, and those that a macro may complete or rename.

    Instrumentation, sections and linkage are attributes too. (`checks.compiler_names` refuses the names of
    vendors, without which no `[[...]]` means more than the standard's.)
    """
    macros = {line[1].text for line in source.directives if len(line) > 1 and line[0].text == "define"}
    for stream in source.streams:
        parameters = inside_parentheses(stream, 2) if stream and stream[0].text == "define" else ()
        renamed = macros | {token.text for token in parameters}
        for at, token in enumerate(stream):
            following = stream[at + 1].text if at + 1 < len(stream) else ""
            if token.text == "__attribute__":
                end, allowed = matching_bracket(stream, at + 1, "(", ")"), word_lists.ALLOWED_ATTRIBUTES
            elif (token.text, following) == ("[", "["):
                end, allowed = matching_bracket(stream, at, "[", "]"), word_lists.ALLOWED_STANDARD_ATTRIBUTES
            else:
                continue
            if end == len(stream) or (token.text == "__attribute__" and following != "("):
                yield Finding("host", "an attribute that is not written out", token.line)
            for word in stream[at + 1 : end]:
                if word.kind == "word" and (word.text not in allowed or word.text in renamed):
                    yield Finding("host", f"the attribute {word.text}", word.line)


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


def _defined(source: Source) -> set[str]:
    """The names of functions with a body outside all brackets but those of an `extern "C"`."""
    plain, around, names = source.plain, source.around, set()
    for at in range(1, len(plain)):
        after = source.closes[at] + 1
        if plain[at].text != "(" or after >= len(plain) or plain[after].text != "{":
            continue
        brace = around[at]
        while brace > 1 and plain[brace - 1].text == '"C"':
            brace = around[brace]
        if brace < 0:
            names.add(plain[at - 1].text)
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
