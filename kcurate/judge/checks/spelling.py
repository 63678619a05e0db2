"""Spelling tricks: misleading characters, headers and directives that are not allowed, pasted tokens.

These checks make sure that the compiler sees the same words as the other checks. Not covered: what the words
mean (`kcurate.judge.checks.source`), the lists (`kcurate.judge.checks.word_lists`).
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from kcurate.core.headers import IN_SIDES
from kcurate.judge.checks import word_lists
from kcurate.judge.checks.findings import Finding
from kcurate.judge.checks.lexer import Source, header_name, inside_parentheses, rewritten

# Limits that bound the judge's time; the largest of the 180 CUDA files of Parboil and Rodinia has 68 KiB.
MAX_CODE_BYTES = 256 * 1024
MAX_TOKENS = 80_000
MAX_DEPTH = 100
_UNICODE_NAME = re.compile(r"\\[uU][0-9a-fA-F{]|\\N\{")
# Macros that probe the compiler's files.
_FILE_PROBES = ("__has_include", "__has_include_next", "__has_embed", "__FILE__", "__BASE_FILE__")
_NEVER_DEFINED = word_lists.ASM_WORDS | word_lists.FIXED_KEYWORDS
# Bidirectional controls and invisible characters, which make code compile differently from how it reads.
_INVISIBLE = re.compile("[\u200b-\u200f\u202a-\u202e\u2060-\u2069\ufeff]")


def size(source: Source) -> Iterator[Finding]:
    """Code that is too long or too deeply nested; no other check runs on it."""
    if len(source.code.encode("utf-8", "surrogatepass")) > MAX_CODE_BYTES:
        yield Finding("size", f"more than {MAX_CODE_BYTES // 1024} KiB of code")
    elif len(source.tokens) > MAX_TOKENS:
        yield Finding("size", f"more than {MAX_TOKENS} tokens")
    elif source.depth > MAX_DEPTH:
        yield Finding("size", f"brackets nested more than {MAX_DEPTH} deep")


def characters(source: Source) -> Iterator[Finding]:
    """What compilers may read in two ways, universal character names, invisible characters."""
    if match := _INVISIBLE.search(source.code):
        yield Finding("characters", "invisible characters", source.code.count("\n", 0, match.start()) + 1)
    for what, line in rewritten(source.code).ambiguous:
        yield Finding("characters", what, line)
    for stream in source.streams:
        for token in stream:
            if token.kind in ("string", "char") and _UNICODE_NAME.search(token.text):
                yield Finding("characters", "a universal character name", token.line)


def directives(source: Source) -> Iterator[Finding]:
    """Directives that hide or redirect code, and macros that probe the compiler's files."""
    for line in source.directives:
        name = line[0].text if line else ""
        if name not in word_lists.ALLOWED_DIRECTIVES:
            yield Finding("directives", f"#{name}", line[0].line)
        elif name == "pragma" and (len(line) < 2 or line[1].text not in word_lists.ALLOWED_PRAGMAS):
            yield Finding("directives", f"#pragma {line[1].text if len(line) > 1 else ''}", line[0].line)
        elif name in ("define", "undef") and len(line) > 1 and line[1].text in _NEVER_DEFINED:
            yield Finding("directives", f"{name}s {line[1].text}", line[0].line)
    for stream in source.streams:
        for at, token in enumerate(stream):
            if token.text in _FILE_PROBES:
                yield Finding("directives", token.text, token.line)
            elif token.text == "_Pragma":
                inside = stream[at + 1 : at + 4]
                literal = [part.kind for part in inside] == ["punctuation", "string", "punctuation"]
                words = inside[1].text.strip('"').split() if literal else []
                if not words or words[0] not in word_lists.ALLOWED_PRAGMAS:
                    yield Finding("directives", "_Pragma", token.line)


def headers(source: Source) -> Iterator[Finding]:
    """Includes other than the allowed toolkit headers, and computed includes."""
    for line in source.directives:
        if line and line[0].text == "include" and header_name(line) not in IN_SIDES:
            text = "".join(token.text for token in line[1:])
            cub = (
                ": include the block's or warp's own, such as cub/block/block_reduce.cuh"
                if "cub/" in text
                else ""
            )
            yield Finding("headers", f"the header {text[:60]} is not available{cub}", line[0].line)


def pasting(source: Source) -> Iterator[Finding]:
    """`##` that could spell a refused word, because its fixed part is a substring of one."""
    hidden = word_lists.HIDDEN_WORDS
    for line in source.directives:
        if not line or line[0].text != "define":
            continue
        parameters = {token.text for token in inside_parentheses(line, 2) if token.kind == "word"}
        for at, token in enumerate(line):
            if token.text != "##":
                continue
            sides = [line[i].text for i in (at - 1, at + 1) if 0 <= i < len(line)]
            fixed = [text for text in sides if text not in parameters and text != "__VA_ARGS__"]
            comma = sides[0] == "," and sides[1:] == ["__VA_ARGS__"]
            if not comma and (not fixed or any(any(text in word for word in hidden) for text in fixed)):
                yield Finding("pasting", f"{' ## '.join(sides)} can spell a forbidden word", token.line)
