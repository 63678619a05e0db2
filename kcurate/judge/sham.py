"""Signs that a slow side was made slow on purpose, or that its text says which side it is.

`sham` refuses what no competent beginner writes: loops that do the same again, empty waiting loops, busy
work on volatile locals. `label_leaks` only hints (published code is stripped of comments and given neutral
names anyway). Heuristics on tokens, made to let honest code through; what a plan repeats is not covered
here.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from kcurate.judge.findings import Finding
from kcurate.judge.source_checks import Source
from kcurate.judge.tokens import Token

_LABELS = re.compile(
    r"slow|naive|na_ve|unoptimi[sz]ed|deoptimi[sz]ed|baseline|inefficient|suboptimal|uncoalesced|wasteful|"
    r"faster|optimi[sz]ed|speedup|sandbag",
    re.IGNORECASE,
)
_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)
_ASSIGN = frozenset({"=", "+=", "-=", "*=", "/=", "%=", "&=", "|=", "^=", "<<=", ">>="})
_KEYWORDS = frozenset(
    "if else for while do return break continue int unsigned long short char float double bool const auto".split()
)
# What may stand in a loop's body and still leave it the same each time: pure functions of their arguments.
_PURE = frozenset(
    """
    sqrtf sqrt expf exp logf log sinf cosf sin cos tanhf tanh fabsf fabs abs min max fminf fmaxf powf pow
    rsqrtf rsqrt fmaf fma __fmaf_rn __expf __logf __sinf __cosf __fdividef __ldg
    """.split()
)


def sham(source: Source) -> Iterator[Finding]:
    """Loops that redo the same statement, empty loops, volatile locals."""
    plain = source.plain
    for at, token in enumerate(plain):
        if token.text == "for" and (parts := _for_parts(plain, at)):
            variable, body = parts
            if not body:
                yield Finding("sham", "a loop that does nothing", token.line)
            elif variable and _same_each_time(variable, body):
                yield Finding("sham", "a loop that does the same each time", token.line)
    yield from _volatile_locals(plain)


def _for_parts(plain: tuple[Token, ...], at: int) -> tuple[str | None, tuple[Token, ...]] | None:
    """A counted loop's variable and its body without braces."""
    opening = at + 1
    if opening >= len(plain) or plain[opening].text != "(":
        return None
    closing = _partner(plain, opening, "(", ")")
    head = plain[opening + 1 : closing]
    cuts = [i for i, token in enumerate(head) if token.text == ";"]
    if len(cuts) != 2:
        return None
    assigned = [i for i, token in enumerate(head[: cuts[0]]) if token.text == "="]
    variable = head[assigned[0] - 1].text if assigned and assigned[0] else None
    after = head[cuts[1] + 1 :]
    busy = sum(token.text in _ASSIGN or token.text in ("++", "--") or token.text == "(" for token in after)
    start = closing + 1
    if start >= len(plain) or busy > 1 or any(token.text == "(" for token in head):
        return None
    if plain[start].text == "{":
        return variable, plain[start + 1 : _partner(plain, start, "{", "}")]
    end = next((i for i in range(start, len(plain)) if plain[i].text in (";", "{")), len(plain))
    return (variable, plain[start:end]) if end < len(plain) and plain[end].text == ";" else None


def _partner(plain: tuple[Token, ...], at: int, opening: str, closing: str) -> int:
    depth = 0
    for end in range(at, len(plain)):
        depth += (plain[end].text == opening) - (plain[end].text == closing)
        if depth == 0:
            return end
    return len(plain)


def _same_each_time(variable: str, body: tuple[Token, ...]) -> bool:
    """Plain assignments alone, of values that the body does not change: running it twice is running it once."""
    texts = [token.text for token in body]
    if variable in texts or any(text in _ASSIGN - {"="} or text in ("++", "--") for text in texts):
        return False
    if any(
        text in ("break", "return", "goto", "continue", "asm", "&", "while", "for", "do") for text in texts
    ):
        return False
    for i, token in enumerate(body[:-1]):
        if token.kind == "word" and body[i + 1].text == "(" and token.text not in _PURE | {"if", "sizeof"}:
            return False
    written, read = _written_and_read(body)
    return bool(written) and not written & read


def _written_and_read(body: tuple[Token, ...]) -> tuple[set[str], set[str]]:
    """Names that the body assigns (not those it declares), and names that it reads from outside."""
    written: set[str] = set()
    read: set[str] = set()
    declared: set[str] = set()
    for statement in _statements(body):
        words = [token for token in statement if token.kind == "word" and token.text not in _KEYWORDS]
        if not words:
            continue
        equals = next((i for i, token in enumerate(statement) if token.text == "="), None)
        target = statement[0] if statement[0].kind == "word" else words[0]
        if equals is None:
            read |= {token.text for token in words}
            continue
        left = [t for t in statement[:equals] if t.kind == "word"]
        right = {t.text for t in statement[equals:] if t.kind == "word" and t.text not in _KEYWORDS}
        if len(left) > 1 and statement[1].kind == "word":
            declared.add(left[-1].text)
        elif statement[0].text in ("*", "("):
            written.add(words[0].text)
        else:
            written.add(target.text)
            read |= {t.text for t in left[1:]} - declared
        read |= right - declared
    return written, read


def _statements(body: tuple[Token, ...]) -> Iterator[tuple[Token, ...]]:
    current: list[Token] = []
    for token in body:
        if token.text in (";", "{", "}"):
            if current:
                yield tuple(current)
            current = []
        else:
            current.append(token)
    if current:
        yield tuple(current)


def _volatile_locals(plain: tuple[Token, ...]) -> Iterator[Finding]:
    """`volatile` on a plain local; on shared memory and on pointers it is an honest (old) habit."""
    depth = 0
    for at, token in enumerate(plain):
        depth += (token.text == "{") - (token.text == "}")
        if token.text != "volatile" or not depth:
            continue
        near = [item.text for item in plain[max(0, at - 3) : at + 6]]
        if not {"__shared__", "*", "&", "asm", "__asm__"} & set(near):
            yield Finding("sham", "a volatile local", token.line)


def label_leaks(source: Source) -> Iterator[Finding]:
    """Comments and names that tell which side this is; a hint, never a refusal."""
    for match in _COMMENT.finditer(source.code):
        if label := _LABELS.search(match.group()):
            line = source.code.count("\n", 0, match.start()) + 1
            yield Finding("label_leaks", f"a comment says {label.group()!r}", line)
    seen = set()
    for token in source.plain:
        if token.kind == "word" and token.text not in seen and (label := _LABELS.search(token.text)):
            seen.add(token.text)
            yield Finding("label_leaks", f"the name {token.text!r}", token.line)
