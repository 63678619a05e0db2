"""Checks on the tokens of device code: each takes a `Source` and yields what it refuses.

Directives are searched as well as code, since a macro's body becomes code. Not covered: variables that keep
state (`kcurate.judge.globals`), sham work (`kcurate.judge.sham`), the lists (`kcurate.judge.words`).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

from kcurate.judge import words
from kcurate.judge.findings import Finding
from kcurate.judge.tokens import Token, directive_tokens, tokenize

MAX_CODE_BYTES = 256 * 1024
INTEGER_TYPES = frozenset(
    """
    int unsigned long short char signed size_t ptrdiff_t intptr_t uintptr_t uint64_t int64_t uint32_t int32_t
    uint16_t int16_t uint8_t int8_t longlong ulonglong CUdeviceptr
    """.split()
)
_UNICODE_NAME = re.compile(r"\\[uU][0-9a-fA-F{]|\\N\{")
# Bidirectional controls and invisible characters: code that reads otherwise than it compiles.
_INVISIBLE = re.compile("[\u200b-\u200f\u202a-\u202e\u2060-\u2069\ufeff]")
_PTX_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)
_PTX_ESCAPE = re.compile(r"\\(.)", re.DOTALL)


@dataclass(frozen=True)
class Source:
    """Code and its tokens, read once for all checks."""

    code: str

    @cached_property
    def tokens(self) -> tuple[Token, ...]:
        """Everything, directives as single tokens."""
        return tokenize(self.code)

    @cached_property
    def directives(self) -> tuple[tuple[Token, ...], ...]:
        """The tokens of each directive after its `#`."""
        return tuple(directive_tokens(token) for token in self.tokens if token.kind == "directive")

    @cached_property
    def plain(self) -> tuple[Token, ...]:
        """The code without directives."""
        return tuple(token for token in self.tokens if token.kind != "directive")

    @cached_property
    def streams(self) -> tuple[tuple[Token, ...], ...]:
        """The code, then each directive: every place where a word may stand."""
        return (self.plain, *self.directives)


def characters(source: Source) -> Iterator[Finding]:
    """Spellings that hide what is compiled: universal names, trigraphs, digraph directives, odd letters."""
    if len(source.code.encode("utf-8", "surrogatepass")) > MAX_CODE_BYTES:
        yield Finding("characters", f"more than {MAX_CODE_BYTES // 1024} KiB of code")
    if "\0" in source.code or _INVISIBLE.search(source.code):
        yield Finding("characters", "invisible or control characters")
    if re.search(r"\?\?[=/'()!<>-]", source.code):
        yield Finding("characters", "trigraphs")
    for stream in source.streams:
        for first, second in zip(stream, stream[1:], strict=False):
            if first.text == "%" and second.text.startswith(":"):
                yield Finding("characters", "the digraph %:", first.line)
        for token in stream:
            if token.kind not in ("string", "char") and (not token.text.isascii() or token.text in "@`\\"):
                yield Finding("characters", f"the character {token.text[:1]!r} outside a comment", token.line)
            if token.kind in ("string", "char") and _UNICODE_NAME.search(token.text):
                yield Finding("characters", "a universal character name", token.line)


def directives(source: Source) -> Iterator[Finding]:
    """Includes off the list, computed includes, and directives that hide or redirect code."""
    for line in source.directives:
        name = line[0].text if line else ""
        if name == "include":
            yield from _include(line)
        elif name not in words.DIRECTIVES:
            yield Finding("directives", f"#{name}", line[0].line)
        elif name == "pragma" and (len(line) < 2 or line[1].text not in words.PRAGMAS):
            yield Finding("directives", f"#pragma {line[1].text if len(line) > 1 else ''}", line[0].line)
        elif name == "define" and len(line) > 1 and _keyword_like(line[1].text):
            yield Finding("directives", f"redefines {line[1].text}", line[0].line)
    for stream in source.streams:
        for at, token in enumerate(stream):
            if token.text in (
                "__has_include",
                "__has_include_next",
                "__has_embed",
                "__FILE__",
                "__BASE_FILE__",
            ):
                yield Finding("directives", token.text, token.line)
            elif token.text == "_Pragma":
                inside = stream[at + 2].text.strip('"').split() if at + 2 < len(stream) else []
                if not inside or inside[0] not in words.PRAGMAS:
                    yield Finding("directives", "_Pragma", token.line)


def _include(line: tuple[Token, ...]) -> Iterator[Finding]:
    text = "".join(token.text for token in line[1:])
    name = text[1:-1] if text[:1] + text[-1:] in ("<>", '""') else ""
    if name not in words.HEADERS:
        yield Finding("directives", f"#include {text[:60]} is not on the list of headers", line[0].line)


def _keyword_like(name: str) -> bool:
    return name in words.ASM_WORDS or name in {
        "if",
        "for",
        "while",
        "const",
        "static",
        "__device__",
        "volatile",
    }


def calls(source: Source) -> Iterator[Finding]:
    """Sleeping, clocks, traps, the heap, output, host functions."""
    for index, stream in enumerate(source.streams):
        for at, token in enumerate(stream):
            if token.kind == "word" and _refused_word(stream, at, in_directive=index > 0):
                yield Finding("calls", token.text, token.line)


def _refused_word(stream: tuple[Token, ...], at: int, *, in_directive: bool) -> bool:
    word = stream[at].text
    before = stream[at - 1].text if at else ""
    if word in words.FORBIDDEN_WORDS:
        return True
    if word.startswith(words.FORBIDDEN_PREFIXES) and word not in words.BUILTINS:
        return True
    if word == "delete":
        return before != "="
    if word not in words.FORBIDDEN_CALLS or before in (".", "->"):
        return False
    following = stream[at + 1].text if at + 1 < len(stream) else ""
    return in_directive or word not in words.ORDINARY_NAMES or following == "(" or before == "&"


def host(source: Source) -> Iterator[Finding]:
    """Code for the host, declarations of what is defined elsewhere, linker attributes."""
    plain = source.plain
    for at, token in enumerate(plain):
        following = [item.text for item in plain[at + 1 : at + 4]]
        if token.text == "<<<":
            yield Finding("host", "a launch from code: the plan launches", token.line)
        elif token.text == "main" and following[:1] == ["("]:
            yield Finding("host", "a main function", token.line)
        elif token.text == "extern" and not _honest_extern(following):
            yield Finding("host", "extern declaration", token.line)
    for stream in source.streams:
        for at, token in enumerate(stream):
            if token.text == "__attribute__":
                for word in _inside_parentheses(stream, at + 1):
                    if word.kind == "word" and word.text not in words.ATTRIBUTES:
                        yield Finding("host", f"__attribute__(({word.text}))", word.line)


def _honest_extern(following: list[str]) -> bool:
    if following[:1] in (["__shared__"], ["__align__"], ["alignas"], ["volatile"]):
        return True
    return following[:1] == ['"C"'] and following[1:2] in (["{"], ["__global__"], ["__device__"])


def _inside_parentheses(stream: tuple[Token, ...], at: int) -> tuple[Token, ...]:
    """The tokens between the parenthesis at `at` and its partner; none when there is no parenthesis."""
    if at >= len(stream) or stream[at].text != "(":
        return ()
    depth = 0
    for end in range(at, len(stream)):
        depth += {"(": 1, ")": -1}.get(stream[end].text, 0)
        if depth == 0:
            return stream[at + 1 : end]
    return stream[at + 1 :]


def pasting(source: Source) -> Iterator[Finding]:
    """`##` that could spell a refused word: its fixed part must not be a piece of one."""
    hidden = words.ASM_WORDS | words.FORBIDDEN_CALLS | words.FORBIDDEN_WORDS
    for line in source.directives:
        if not line or line[0].text != "define":
            continue
        parameters = _parameters(line)
        for at, token in enumerate(line):
            if token.text != "##":
                continue
            sides = [line[i].text for i in (at - 1, at + 1) if 0 <= i < len(line)]
            fixed = [text for text in sides if text not in parameters and text != "__VA_ARGS__"]
            comma = sides[0] == "," and sides[1:] == ["__VA_ARGS__"]
            if not comma and (not fixed or any(any(text in word for word in hidden) for text in fixed)):
                yield Finding("pasting", f"{' ## '.join(sides)} may spell anything", token.line)


def _parameters(line: tuple[Token, ...]) -> set[str]:
    return {token.text for token in _inside_parentheses(line, 2) if token.kind == "word"}


def assembly(source: Source) -> Iterator[Finding]:
    """Inline PTX: literal text alone, of listed instructions, reading no clock."""
    for stream in source.streams:
        for at, token in enumerate(stream):
            if token.text not in words.ASM_WORDS:
                continue
            start = at + 1
            while start < len(stream) and stream[start].text in ("volatile", "__volatile__"):
                start += 1
            inside = _inside_parentheses(stream, start)
            text = []
            for item in inside:
                if item.text.startswith(":"):
                    break
                text.append(item)
            if not text or any(item.kind != "string" or not item.text.startswith('"') for item in text):
                yield Finding("assembly", "asm that is no plain text", token.line)
            else:
                yield from _ptx("".join(item.text[1:-1] for item in text), token.line)


def _ptx(text: str, line: int) -> Iterator[Finding]:
    if any(escape not in 'nt\\"' for escape in _PTX_ESCAPE.findall(text)):
        yield Finding("assembly", "an escape that hides text", line)
    text = _PTX_ESCAPE.sub(lambda match: {"n": "\n", "t": " "}.get(match[1], match[1]), text)
    text = _PTX_COMMENT.sub(" ", text)
    for register in re.findall(r"%([A-Za-z_]\w*)", text):
        if register.startswith(words.PTX_FORBIDDEN_REGISTERS):
            yield Finding("assembly", f"reads %{register}", line)
    for statement in re.split(r"[;{}\n]", text):
        body = re.sub(r"^\s*@!?[%\w]+\s*", "", statement).strip()
        if re.match(r"[A-Za-z_$%][\w$]*\s*:", body):
            yield Finding("assembly", "a label", line)
        match = re.match(r"\.?[A-Za-z_]\w*", body)
        first = match.group() if match else ""
        continued = not match or (first != ".reg" and first.startswith("."))
        if (first and not continued and first != ".reg" and first not in words.PTX) or (
            continued
            and first.startswith(".")
            and first[1:] in ("func", "entry", "global", "extern", "visible")
        ):
            yield Finding("assembly", f"the PTX instruction {first}", line)


def int_as_ptr(source: Source) -> Iterator[Finding]:
    """A pointer made out of a number: an address that no argument gave."""
    plain = source.plain
    integers = _integer_names(plain)
    for at, token in enumerate(plain):
        if token.text == "reinterpret_cast":
            arguments = _inside_parentheses(plain, _after_angles(plain, at + 1))
            kind = plain[at + 1 : _after_angles(plain, at + 1)]
            if any(item.text == "*" for item in kind) and _integral(arguments, integers):
                yield Finding("int_as_ptr", "reinterpret_cast of a number", token.line)
        elif token.text == "(" and (end := _pointer_cast(plain, at)):
            operand = _operand(plain, end)
            if _integral(operand, integers):
                yield Finding("int_as_ptr", "a number cast to a pointer", token.line)
        elif token.text == "union":
            yield from _punning_union(plain, at)


def _pointer_cast(plain: tuple[Token, ...], at: int) -> int | None:
    """Where a C cast `(type*)` at `at` ends, else None."""
    end, stars = at + 1, 0
    while end < len(plain) and (plain[end].kind == "word" or plain[end].text in ("*", "::", "<", ">", ",")):
        stars += plain[end].text == "*"
        end += 1
    closed = (
        end < len(plain)
        and plain[end].text == ")"
        and stars
        and plain[end - 1].text in ("*", "const", "__restrict__")
    )
    called = at > 0 and plain[at - 1].kind == "word" and plain[at - 1].text not in ("return", "else", "do")
    return end + 1 if closed and not called and plain[at + 1].kind == "word" else None


def _operand(plain: tuple[Token, ...], at: int) -> tuple[Token, ...]:
    """What a cast at `at` applies to: a literal, a name, or a parenthesised expression with its prefix."""
    if at < len(plain) and plain[at].text == "(":
        inner = _inside_parentheses(plain, at)
        rest = at + len(inner) + 2
        is_type = bool(inner) and all(
            item.text in INTEGER_TYPES or item.text in ("const", "::", "std") for item in inner
        )
        if (
            is_type
            and rest < len(plain)
            and (plain[rest].kind in ("word", "number") or plain[rest].text == "(")
        ):
            return inner
        return inner
    return plain[at : at + 1]


def _integral(operand: tuple[Token, ...], integers: set[str]) -> bool:
    """True when an expression is surely a number and no pointer with an offset."""
    texts = [item.text for item in operand if item.text not in ("(", ")", "const")]
    if not texts or texts == ["0"]:
        return False
    if operand[0].kind == "number" or texts[0] in INTEGER_TYPES:
        return "*" not in texts
    names = [item for item in operand if item.kind == "word"]
    return bool(names) and all(item.text in integers for item in names) and "&" not in texts[:1]


def _integer_names(plain: tuple[Token, ...]) -> set[str]:
    """Names declared as integers and nowhere as pointers (or as arrays, or as anything else)."""
    integers, others = set(), set()
    for before, name, after in zip(plain, plain[1:], plain[2:], strict=False):
        if name.kind != "word":
            continue
        if before.text in INTEGER_TYPES and name.text not in INTEGER_TYPES and after.text in "=;,)":
            integers.add(name.text)
        elif before.text in ("*", "&", "__restrict__", "restrict") or after.text == "[":
            others.add(name.text)
    return integers - others


def _after_angles(plain: tuple[Token, ...], at: int) -> int:
    depth = 0
    for end in range(at, min(at + 64, len(plain))):
        depth += {"<": 1, ">": -1, ">>": -2}.get(plain[end].text, 0)
        if depth <= 0:
            return end + 1
    return at


def _punning_union(plain: tuple[Token, ...], at: int) -> Iterator[Finding]:
    opening = next((i for i in range(at + 1, min(at + 4, len(plain))) if plain[i].text == "{"), None)
    if opening is None:
        return
    depth, body = 0, []
    for token in plain[opening:]:
        depth += {"{": 1, "}": -1}.get(token.text, 0)
        body.append(token.text)
        if depth == 0:
            break
    if "*" in body and any(word in INTEGER_TYPES for word in body):
        yield Finding("int_as_ptr", "a union of a pointer and a number", plain[at].line)
