"""Inline PTX must be plain string literals of allowed instructions that read no clock.

Not covered: machine code (`kcurate.judge.checks.binary`), the lists (`kcurate.judge.checks.word_lists`).
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from kcurate.judge.checks import word_lists
from kcurate.judge.checks.findings import Finding
from kcurate.judge.checks.lexer import Source, inside_parentheses

_PTX_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)
_PTX_ESCAPE = re.compile(r"\\(.)", re.DOTALL)


def assembly(source: Source) -> Iterator[Finding]:
    """Inline assembly that is not plain text, uses another instruction, or reads a clock."""
    for stream in source.streams:
        for at, token in enumerate(stream):
            if token.text not in word_lists.ASM_WORDS:
                continue
            start = at + 1
            while start < len(stream) and stream[start].text in ("volatile", "__volatile__"):
                start += 1
            inside = inside_parentheses(stream, start)
            text = []
            for item in inside:
                if item.text.startswith(":"):
                    break
                text.append(item)
            if not text or any(item.kind != "string" or not item.text.startswith('"') for item in text):
                yield Finding("assembly", "asm whose text is not a plain string literal", token.line)
            else:
                yield from _ptx("".join(item.text[1:-1] for item in text), token.line)


def _ptx(text: str, line: int) -> Iterator[Finding]:
    if any(escape not in 'nt\\"' for escape in _PTX_ESCAPE.findall(text)):
        yield Finding("assembly", "an escape sequence that hides text", line)
    text = _PTX_ESCAPE.sub(lambda match: {"n": "\n", "t": " "}.get(match[1], match[1]), text)
    text = _PTX_COMMENT.sub(" ", text)
    for register in re.findall(r"%([A-Za-z_]\w*)", text):
        if register.startswith(word_lists.PTX_FORBIDDEN_REGISTERS):
            yield Finding("assembly", f"reads %{register}", line)
    for statement in re.split(r"[;{}\n]", text):
        body = re.sub(r"^\s*@!?[%\w]+\s*", "", statement).strip()
        if re.match(r"[A-Za-z_$%][\w$]*\s*:", body):
            yield Finding("assembly", "a label", line)
        match = re.match(r"\.?[A-Za-z_]\w*", body)
        first = match.group() if match else ""
        continued = not match or (first != ".reg" and first.startswith("."))
        if (first and not continued and first != ".reg" and first not in word_lists.PTX) or (
            continued
            and first.startswith(".")
            and first[1:] in ("func", "entry", "global", "extern", "visible")
        ):
            yield Finding("assembly", f"the PTX instruction {first}", line)
