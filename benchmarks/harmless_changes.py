"""Changes that keep a side correct: what a judge must not refuse.

Renamed variables, swapped operands, a fused multiply-add, another loop form, hoisted indices, another block
size. Each applies only where the text alone shows that it is safe; results may differ by rounding. Not
covered: mistakes (`kcurate.mutate.wrong`), which changes a dataset takes (`kcurate.mutate.broken`).
"""

from __future__ import annotations

import random
import re
from collections.abc import Iterator, Mapping
from dataclasses import replace

from kcurate.mutate.choosing import Change, Changed, of_text, results_of_change
from kcurate.mutate.spans import KEYWORDS, TYPES, Changes, Code, Edit
from kcurate.records import Launch, Side

SCALARS = frozenset({"int", "float", "double", "unsigned", "bool"})
BLOCKS = (64, 128, 256, 512)
_DIRECTIVE = re.compile(r"^[ \t]*#(?:\\\n|[^\n])*", re.MULTILINE)
# What may tie the code to a block size.
_SIZED = re.compile(
    r"__shared__|__shfl|__sync|__launch_bounds__|warpSize|^\s*#\s*define|\b(?:31|32|64|128|256|512)\b",
    re.MULTILINE,
)


def _locals(code: Code) -> list[str]:
    """Names declared once, as scalars, with no other meaning anywhere in the text."""
    counts: dict[str, int] = {}
    for i in code.words(*SCALARS):
        if code.tokens[i + 1].kind == "word" and code.at(i + 2) in ("=", ";", ",", ")"):
            counts[code.at(i + 1)] = counts.get(code.at(i + 1), 0) + 1
    elsewhere = {code.at(i + 1) for i, token in enumerate(code.tokens) if token.text in (".", "->", "::")}
    called = {code.at(i) for i, token in enumerate(code.tokens) if code.at(i + 1) == "("}
    directives = set(re.findall(r"\w+", " ".join(_DIRECTIVE.findall(code.text))))
    unfit = elsewhere | called | directives | TYPES | KEYWORDS
    return [name for name in counts if name not in unfit]


def renamed(code: Code) -> Changes:
    """Rename one variable everywhere."""
    for name in _locals(code):
        yield name, tuple(code.instead(i, f"{name}_other") for i in code.words(name))


def renamed_all(code: Code) -> Changes:
    """Rename all variables."""
    names = {name: f"v{number}_" for number, name in enumerate(_locals(code))}
    edits = tuple(code.instead(i, names[code.at(i)]) for i in code.words(*names))
    if edits:
        yield f"{len(names)} names", edits


def _simple_sum(code: Code, i: int) -> bool:
    """Whether `a + b` or `a * b` at `i` has one-token operands and no neighbour with higher precedence."""
    operands = (i - 1, i + 1)
    if any(code.tokens[k].kind not in ("word", "number") for k in operands if 0 <= k < len(code.tokens)):
        return False
    if not code.is_operand(i - 1) or code.at(i + 1) in TYPES | KEYWORDS:
        return False
    return code.at(i - 2) in ("(", "=", ",", "[", "+=") and code.at(i + 2) in (")", ";", ",", "]")


def reordered(code: Code) -> Changes:
    """`a + b` becomes `b + a`, `a * b` becomes `b * a`."""
    for i, token in enumerate(code.tokens[1:-2], 1):
        if token.text in ("+", "*") and _simple_sum(code, i):
            first, second = code.at(i - 1), code.at(i + 1)
            edit = code.instead(i - 1, f"{second} {token.text} {first}", i + 1)
            yield f"{first} {token.text} {second}", (edit,)


def fused(code: Code) -> Changes:
    """`s += a * b` on floats becomes `s = fmaf(a, b, s)`."""
    floats = {code.at(i + 1) for i in code.words("float") if code.tokens[i + 1].kind == "word"}
    others = {code.at(i + 1) for i in code.words(*(SCALARS - {"float"}))}
    for i, token in enumerate(code.tokens):
        name = code.at(i - 1)
        if token.text != "+=" or name not in floats - others or code.at(i - 2) not in (";", "{", "}", ")"):
            continue
        end = code.ending(i, ";")
        terms = _product(code, i + 1, end) if end is not None else None
        if end is not None and terms is not None:
            text = f"= fmaf({terms[0]}, {terms[1]}, {name})"
            edit = Edit(token.start, code.tokens[end].start, text)
            yield f"{name} += {terms[0]} * {terms[1]}", (edit,)


def _product(code: Code, first: int, end: int) -> tuple[str, str] | None:
    """Both factors of a product of two names, calls or subscripts; None for anything else."""
    at, stars = first, []
    while at < end:
        if code.at(at) in ("(", "[") and at in code.partner:
            at = code.partner[at]
        elif code.at(at) == "*":
            stars.append(at)
        elif code.tokens[at].kind not in ("word", "number") and code.at(at) not in (".", "]", ")"):
            return None
        at += 1
    if len(stars) != 1:
        return None
    star = stars[0]
    return code.text_of((first, star - 1)), code.text_of((star + 1, end - 1))


def loop_form(code: Code) -> Changes:
    """`i++` in a loop's head becomes `i += 1`; `i < n` becomes `n > i`."""
    for i, token in enumerate(code.tokens):
        if token.text == "++" and code.at(i + 1) == ")" and code.is_operand(i - 1):
            yield f"{code.at(i - 1)}++", (code.instead(i, " += 1"),)
        simple = code.at(i - 2) in ("(", ";", "&&") and code.at(i + 2) in (")", ";", "&&")
        if token.text == "<" and simple and code.is_operand(i - 1) and code.is_operand(i + 1):
            first, second = code.at(i - 1), code.at(i + 1)
            yield f"{first} < {second}", (code.instead(i - 1, f"{second} > {first}", i + 1),)


def hoisted(code: Code) -> Changes:
    """`a[i + j] = value;` computes its index first."""
    for i, token in enumerate(code.tokens):
        close = code.partner.get(i, -1)
        assigned = token.text == "[" and close > i and code.at(close + 1) in ("=", "+=")
        if not assigned or code.at(i - 2) not in (";", "{", "}", ")"):
            continue
        end = code.ending(close, ";", "{")
        inner = code.between(i, close)
        plain = not re.search(r"\+\+|--|=", inner) and code.tokens[i - 1].kind == "word"
        if end is not None and code.at(end) == ";" and plain:
            text = f"{{ const auto at_ = {inner}; {code.at(i - 1)}[at_]"
            after = code.tokens[end].end
            edits = code.instead(i - 1, text, close), Edit(after, after, " }")
            yield f"{code.at(i - 1)}[{inner}]", edits


def unrolled(code: Code) -> Changes:
    """Unroll a loop by two."""
    for i in code.words("for"):
        line = code.text.rfind("\n", 0, code.tokens[i].start) + 1
        before = code.text[:line].rstrip().rpartition("\n")[2].lstrip()
        alone = not code.text[line : code.tokens[i].start].strip() and not before.startswith("#")
        if alone and code.at(i - 1) in (";", "{", "}"):
            yield "for", (Edit(line, line, "#pragma unroll 2\n"),)


def reblocked(side: Side) -> Iterator[tuple[str, Side]]:
    """Halve or double the block size, if the code mentions no size and shares no memory."""
    if _SIZED.search(side.code):
        return
    for i, step in enumerate(side.plan):
        if not isinstance(step, Launch) or len(step.block) != 1 or step.block[0] not in BLOCKS:
            continue
        grid = re.fullmatch(rf"ceil_div\((.+), {step.block[0]}\)", str(step.grid[0]))
        if grid is None or len(step.grid) != 1 or "threadIdx.x" not in side.code:
            continue
        for block in (int(step.block[0]) // 2, int(step.block[0]) * 2):
            launch = replace(step, grid=(f"ceil_div({grid[1]}, {block})",), block=(block,))
            yield f"block {block}", replace(side, plan=(*side.plan[:i], launch, *side.plan[i + 1 :]))


def reciprocal(code: Code) -> Changes:
    """Divide by a float literal by multiplying with its reciprocal."""
    for i, token in enumerate(code.tokens):
        if token.text == "/" and re.fullmatch(r"\d+\.\d*f", code.at(i + 1)) and code.at(i + 2) in (";", ")"):
            divisor = code.at(i + 1)
            yield f"/ {divisor}", (code.instead(i, f"* (1.0f / {divisor})", i + 1),)


CHANGES: Mapping[str, Change] = {
    function.__name__: of_text(function)
    for function in (renamed, renamed_all, reordered, fused, loop_form, hoisted, unrolled)
} | {"reblocked": reblocked, "reciprocal": of_text(reciprocal)}


def in_turns(side: Side, changes: Mapping[str, Change], count: int, seed: int) -> tuple[Changed, ...]:
    """At most `count` different sides, cycling through the changes; the same for the same seed."""
    rng = random.Random(seed)
    stocks = {name: list(results_of_change(side, changes, name)) for name in changes}
    for stock in stocks.values():
        rng.shuffle(stock)
    order = [name for name, stock in stocks.items() if stock]
    rng.shuffle(order)
    chosen: list[Changed] = []
    while len(chosen) < count and any(stocks[name] for name in order):
        for name in order:
            if stocks[name] and len(chosen) < count:
                changed = stocks[name].pop()
                if all(changed.side != other.side for other in chosen):
                    chosen.append(changed)
    return tuple(chosen)
