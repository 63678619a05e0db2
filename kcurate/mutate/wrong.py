"""Mistakes that people and models make in kernels, one at a time; the judge must reject the results.

An operator yields an edit for each position where it applies. A mistake may turn out to be harmless
(a guard that always holds, a barrier that orders nothing) or may not compile; statistics must exclude those.
Not covered: harmless changes (benchmarks/harmless_changes.py), choosing among the operators
(`kcurate.mutate.choosing`).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from kcurate.mutate.choosing import Change, of_text
from kcurate.mutate.spans import Changes, Code, Edit

RELATIONS = ("<", "<=", ">", ">=")
# Calls whose argument order does not matter.
COMMUTATIVE = frozenset(
    {"min", "max", "fminf", "fmaxf", "fmin", "fmax", "__fadd_rn", "__fmul_rn", "__mul24", "hypotf"}
)
# An index to which `+ 1` can be appended without parentheses.
_SUM = re.compile(r"[\w\s+\-*/%.\[\]()]*")
# A mask of all ones is often wider than needed, so changing it would be harmless.
_MASK = re.compile(r"0[xX][fF]+[uUlL]*$")


def index_off_by_one(code: Code) -> Changes:
    """`a[i]` reads or writes the neighbouring element."""
    for i, token in enumerate(code.tokens):
        if token.text == "[" and code.is_operand(i - 1) and i in code.partner:
            inner = code.between(i, code.partner[i])
            if re.search(r"[a-z]", inner):
                bare = inner if _SUM.fullmatch(inner) else f"({inner})"
                edit = Edit(token.end, code.tokens[code.partner[i]].start, f"{bare} + 1")
                yield f"{code.at(i - 1)}[{inner}] + 1", (edit,)


def missing_guard(code: Code) -> Changes:
    """Remove `if (i < n)` and `if (i >= n) return`; if an `else` follows, make the condition constant."""
    for i in code.words("if"):
        if code.at(i + 1) != "(" or i + 1 not in code.partner:
            continue
        close = code.partner[i + 1]
        condition = code.between(i + 1, close)
        if any(code.at(k) in RELATIONS for k in code.inside(i + 1)):
            after = code.at(close + 1)
            leaves = after in ("return", "break", "continue")
            end = code.partner.get(close + 1) if after == "{" else code.ending(close + 1, ";")
            if end is None or code.at(end + 1) == "else" or after == "if":
                edit = Edit(code.tokens[i + 1].end, code.tokens[close].start, "false" if leaves else "true")
            elif leaves:
                edit = code.instead(i, ";", end)
            else:
                edit = Edit(code.tokens[i].start, code.tokens[close + 1].start, "")
            yield f"if ({condition})", (edit,)


def dropped_barrier(code: Code) -> Changes:
    """Remove a barrier."""
    for i, token in enumerate(code.tokens):
        named = token.text in ("__syncthreads", "__syncwarp") or (
            token.text == "sync" and code.at(i - 1) == "."
        )
        if named and code.at(i + 1) == "(" and i + 1 in code.partner:
            first = i - 2 if code.at(i - 1) == "." else i
            yield token.text, (code.instead(first, "(void)0", code.partner[i + 1]),)


def wrong_operator(code: Code) -> Changes:
    """Swap `+` and `-`, write `+` for `*`, and similar for `+=`, `|`, `&`, `^` and `<<`."""
    other = {"+": "-", "-": "+", "*": "+", "+=": "-=", "*=": "+=", "|": "&", "&": "|", "^": "|", "<<": ">>"}
    for i, token in enumerate(code.tokens):
        if token.text in other and code.is_operand(i - 1) and not _declares(code, i):
            yield f"{code.at(i - 1)} {token.text} {code.at(i + 1)}", (code.instead(i, other[token.text]),)


def _declares(code: Code, i: int) -> bool:
    """Whether `*` or `&` at `i` is part of a type."""
    if code.at(i) not in ("*", "&"):
        return False
    before = code.at(i - 1)
    starts = code.at(i - 2) in ("", ";", "{", "}", "(", ",", "const", "static") and before not in (")", "]")
    return (
        starts and code.tokens[i - 1].kind == "word" and not code.at(i + 1).isdigit() and not _scaled(code, i)
    )


def _scaled(code: Code, i: int) -> bool:
    """Whether `a * b` is inside the brackets of a call or subscript, where it cannot be a declaration."""
    return code.at(i - 2) in ("(", ",") and code.at(i + 2) in ("+", "-", ")", "]") and code.at(i - 3) != ")"


def bound_off_by_one(code: Code) -> Changes:
    """`<` for `<=` and similar."""
    other = {"<": "<=", "<=": "<", ">": ">=", ">=": ">"}
    for i in _relations(code):
        yield f"{code.at(i - 1)} {code.at(i)} {code.at(i + 1)}", (code.instead(i, other[code.at(i)]),)


def _relations(code: Code) -> Iterator[int]:
    """Relations inside the parentheses of `if`, `for` and `while`, and in conditional values."""
    for k in code.words("if", "for", "while"):
        for i in code.inside(k + 1):
            if code.at(i) in RELATIONS and code.is_operand(i - 1):
                yield i


def lost_tail(code: Code) -> Changes:
    """`i < n` stops at the last multiple of 32."""
    for i in _relations(code):
        if code.at(i) == "<" and code.tokens[i + 1].kind == "word" and code.at(i + 2) in (")", ";", "&&"):
            bound = code.at(i + 1)
            yield f"< {bound} / 32 * 32", (code.instead(i + 1, f"{bound} / 32 * 32"),)


def narrower_accumulate(code: Code) -> Changes:
    """Accumulate a float sum with the 8 significant bits of bfloat16, a double sum in float."""
    floats = {code.at(i + 1) for i in code.words("float") if code.tokens[i + 1].kind == "word"}
    for i, token in enumerate(code.tokens):
        if token.text == "+=" and code.at(i - 1) in floats and code.at(i - 2) in (";", "{", "}", ")"):
            end = code.ending(i, ";")
            if end is not None:
                name, value = code.at(i - 1), code.between(i, end).strip()
                cut = f"= __uint_as_float(__float_as_uint({name} + ({value})) & 0xffff0000u)"
                yield f"{name} += {value}", (Edit(token.start, code.tokens[end].start, cut),)
    for i in code.words("double"):
        if code.tokens[i + 1].kind == "word" and code.at(i + 2) in ("=", ";"):
            yield f"double {code.at(i + 1)}", (code.instead(i, "float"),)


def swapped_arguments(code: Code) -> Changes:
    """Swap the first two arguments of a call, or two subscripts."""
    for i, token in enumerate(code.tokens):
        if token.text == "(" and code.tokens[i - 1].kind == "word" and code.at(i - 1) not in COMMUTATIVE:
            parts = code.parts(i)
            called = code.is_operand(i - 1) and code.at(i - 2) != "__launch_bounds__"
            if called and 2 <= len(parts) <= 4:
                yield from _swap(code, code.at(i - 1), parts[0], parts[1])
        elif token.text == "[" and code.at(code.partner.get(i, 0) + 1) == "[" and code.is_operand(i - 1):
            second = code.partner[i] + 1
            first_parts, second_parts = code.parts(i), code.parts(second)
            if len(first_parts) == len(second_parts) == 1:
                yield from _swap(code, code.at(i - 1), first_parts[0], second_parts[0])


def _swap(code: Code, name: str, part: tuple[int, int], other_part: tuple[int, int]) -> Changes:
    first, second = code.text_of(part), code.text_of(other_part)
    if first != second and not re.match(r"(?:const |float|int|double|unsigned)", first):
        edits = code.instead(part[0], second, part[1]), code.instead(other_part[0], first, other_part[1])
        yield f"{name}: {first} and {second}", edits


def wrong_constant(code: Code) -> Changes:
    """Increase a number by one, or slightly."""
    for i, token in enumerate(code.tokens):
        if token.kind != "number" or _MASK.match(token.text):
            continue
        if re.fullmatch(r"\d+[uUlL]*", token.text):
            digits = re.match(r"\d+", token.text)
            assert digits is not None
            yield token.text, (code.instead(i, str(int(digits[0]) + 1) + token.text[digits.end() :]),)
        elif re.fullmatch(r"[\d.]+(?:[eE][+-]?\d+)?[fF]?", token.text):
            number = float(token.text.rstrip("fF"))
            suffix = "f" if token.text[-1] in "fF" else ""
            yield token.text, (code.instead(i, f"{number * 1.01 or 0.01!r}{suffix}"),)


def halved_constant(code: Code) -> Changes:
    """Halve a power of two: half a tile, half a warp's steps."""
    for i, token in enumerate(code.tokens):
        if token.text in ("4", "8", "16", "32", "64", "128", "256"):
            yield token.text, (code.instead(i, str(int(token.text) // 2)),)


def dropped_atomic(code: Code) -> Changes:
    """Replace an atomic update by a plain one."""
    plain = {"atomicAdd": "+=", "atomicSub": "-=", "atomicOr": "|=", "atomicAnd": "&=", "atomicXor": "^="}
    for i in code.words(*plain, "atomicMax", "atomicMin", "atomicExch"):
        parts = code.parts(i + 1) if code.at(i + 1) == "(" else []
        if len(parts) == 2:
            pointer, value = code.text_of(parts[0]), code.text_of(parts[1])
            target = (
                pointer[1:]
                if pointer.startswith("&")
                else f"*{pointer}"
                if pointer.isidentifier()
                else f"*({pointer})"
            )
            text = f"{target} {plain.get(code.at(i), '=')} {value}"
            text = text if code.at(i - 1) in (";", "{", "}") else f"({text})"
            yield code.at(i), (code.instead(i, text, code.partner[i + 1]),)


def dropped_statement(code: Code) -> Changes:
    """Remove an assignment."""
    for i, token in enumerate(code.tokens):
        if token.text not in ("=", "+=", "*=", "-="):
            continue
        first = i - 1
        while code.at(first) == "]" and first in code.partner:
            first = code.partner[first] - 1
        end = code.ending(i, ";", "{")
        starts = code.at(first - 1) in (";", "{", "}", ")") and code.tokens[first].kind == "word"
        in_for_head = any(i in code.inside(k + 1) for k in code.words("for"))
        if starts and end is not None and code.at(end) == ";" and not in_for_head:
            text = code.text[code.tokens[first].start : code.tokens[end].start]
            yield text, (Edit(code.tokens[first].start, code.tokens[end].start, ""),)


def wrong_axis(code: Code) -> Changes:
    """`threadIdx.y` for `threadIdx.x` and similar."""
    for i in code.words("threadIdx", "blockIdx", "blockDim", "gridDim"):
        if code.at(i + 1) == "." and code.at(i + 2) in ("x", "y"):
            other = "y" if code.at(i + 2) == "x" else "x"
            yield f"{code.at(i)}.{other}", (code.instead(i + 2, other),)


def wrong_logic(code: Code) -> Changes:
    """`||` for `&&`, `!=` for `==`, and vice versa."""
    other = {"&&": "||", "||": "&&", "==": "!=", "!=": "=="}
    for i, token in enumerate(code.tokens):
        if token.text in other:
            yield f"{code.at(i - 1)} {token.text} {code.at(i + 1)}", (code.instead(i, other[token.text]),)


OPERATORS: Mapping[str, Change] = {
    function.__name__: of_text(function)
    for function in (
        index_off_by_one,
        missing_guard,
        dropped_barrier,
        wrong_operator,
        bound_off_by_one,
        lost_tail,
        narrower_accumulate,
        swapped_arguments,
        wrong_constant,
        halved_constant,
        dropped_atomic,
        dropped_statement,
        wrong_axis,
        wrong_logic,
    )
}
