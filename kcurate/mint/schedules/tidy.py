"""A small optimiser of generated kernel text, so that a kernel reads as a person would write it.

It works line by line with regular expressions, on CUDA C++ and Triton alike: their scopes are indentation.
Passes, in order: common subexpressions (loads, then indexes) get a variable; `i / n * n + i % n` becomes `i`;
then dead declarations go, copies are propagated and equal declarations merged until nothing changes; last,
`row_2` becomes `row` where that name is free. `tidied` turns

    int item = blockIdx.x * blockDim.x + threadIdx.x;
    int i = item / n;
    int j = item % n;
    int next = i + 1;
    int column = j;
    out[i * n + j] = x[i * n + j] * w[j] + w[column];

into

    int at = blockIdx.x * blockDim.x + threadIdx.x;
    int j = at % n;
    out[at] = x[at] * w[j] + w[j];

Only single-assignment variables take part. Not covered: what is computed (`writer`, `kernels`).
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

# Index names that say nothing about the axis; a copy propagated from one keeps the copy's name instead.
GENERIC = frozenset(
    {"e", "item", "flat", "inner", "row_at", "column_at", "down", "across"}
    | {"row_a", "deep_a", "column_b", "deep_b"}
)
# `int i = item / n;` or Triton's `i = item // n`: indentation, type, name, value, semicolon.
_DECLARATION = re.compile(r"( *)((?:int |float )?)([A-Za-z_]\w*) = (.+?)(;?)$")
# A second declarator: `= 0, j = 1`.
_SECOND_DECLARATOR = re.compile(r", \w+ = \w")
# `i =`, `out[i] +=`, `&i`, `++i`: whatever writes a variable or may write it; not the member in `s.i = 0`.
_ASSIGNED = re.compile(r"(?<![\w.])(\w+)(?:\[[^=\n]*\])? [-+*/]?= |&(\w+)\b|\+\+(\w+)\b")
# The name in a C++ declaration, first or further declarator.
_DECLARED_CPP = re.compile(r"(?:\bint |\bfloat |, )(\w+) = ")
# The variable of a Triton loop.
_LOOP_VARIABLE = re.compile(r"\bfor (\w+) in ")
# An identifier.
_WORD = re.compile(r"[A-Za-z_]\w*")
# A name that a counter made unique: `row_2`.
_NUMBERED = re.compile(r"([A-Za-z_]\w*?_)(\d+)$")


@dataclass(frozen=True)
class _Declared:
    """A declaration on line `at`, indented by `depth`; `kind` is its C++ type (`int `), empty in Triton."""

    at: int
    depth: int
    kind: str
    name: str
    value: str


def tidied(lines: Sequence[str], indexes: Iterable[str], loads: Iterable[tuple[str, str]]) -> list[str]:
    """The lines of a kernel's body, simplified.

    `indexes`: their texts; `loads`: texts of elements (`w[j]`) that are safe to read earlier in the same
    block, each with the name of its array.
    """
    text = list(lines)
    for load, array in sorted(loads):
        text = _hoist_repeated(text, load, f"{array}_value", rf"(?<![\w.]){re.escape(load)}(?![\w(\[.])")
    for index in sorted(indexes, key=lambda text: (-len(text), text)):
        if not _WORD.fullmatch(index):
            where = rf"(?:(?<=\w\[)|(?<=\w \+ )){re.escape(index)}(?=[\],)])"  # all of it, or after `x + `
            text = _hoist_repeated(text, index, "at", where)
    text = _undo_div_mod(text)
    while (shorter := _simplify_once(text)) is not None:
        text = shorter
    return _without_numbers(text)


def _undo_div_mod(lines: list[str]) -> list[str]:
    """`i / n * n + i % n` becomes `i`, through the variables that hold quotient and remainder."""
    values = {entry.value: entry.name for entry in _declarations(lines)}
    for value, quotient in values.items():
        match = re.fullmatch(r"(\w+) //? (\w+)", value)
        remainder = match and values.get(f"{match[1]} % {match[2]}")
        if match and remainder:
            # Bare only where the sum is a whole operand: not in `k * i * n + j`, nor in `i * n + j % 2`.
            parts = rf"{quotient} \* {match[2]} \+ {remainder}(?![\w.])(?! [*/%])"
            pattern = re.compile(rf"\({parts}\)|(?<![*/%] )(?<![\w.]){parts}")
            lines = [pattern.sub(match[1], line) for line in lines]
    return lines


def uses(text: str, name: str) -> bool:
    """Whether a text has this identifier."""
    return name in text and re.search(rf"\b{name}\b", text) is not None


def _declarations(lines: Sequence[str]) -> list[_Declared]:
    """The declarations of single-assignment variables (a name may be declared again in another scope)."""
    cpp = any(line.endswith(";") for line in lines)
    reassigned = _reassigned("\n".join(lines), cpp=cpp)
    matches = ((at, match) for at, line in enumerate(lines) if (match := _DECLARATION.match(line)))
    return [
        _Declared(at, len(match[1]), match[2], match[3], match[4])
        for at, match in matches
        if bool(match[2]) == cpp
        and match[3] not in reassigned
        and not (cpp and _SECOND_DECLARATOR.search(match[4]))
    ]


def _reassigned(text: str, *, cpp: bool) -> set[str]:
    """The names assigned after their declaration, incremented, or whose address is taken; loop variables."""
    assigned = Counter(next(filter(None, match.groups())) for match in _ASSIGNED.finditer(text))
    declared = Counter(_DECLARED_CPP.findall(text)) if cpp else Counter(dict.fromkeys(assigned, 1))
    loop_variables = set() if cpp else set(_LOOP_VARIABLE.findall(text))
    return {name for name, count in assigned.items() if count > declared[name]} | loop_variables


def _scope_after(depths: Sequence[int], declared: _Declared) -> range:
    """The lines after a declaration in its scope; `depths`: the indentation of each line."""
    end = declared.at + 1
    while end < len(depths) and depths[end] >= declared.depth:
        end += 1
    return range(declared.at + 1, end)


def _depths(lines: Sequence[str]) -> list[int]:
    return [len(line) - len(line.lstrip(" ")) for line in lines]


def _simplify_once(lines: list[str]) -> list[str] | None:
    """Removes a dead declaration, propagates a copy or merges equal declarations; None: nothing to do."""
    declared, depths = _declarations(lines), _depths(lines)
    regions = {entry.at: _scope_after(depths, entry) for entry in declared}
    for entry in declared:
        region = regions[entry.at]
        if not any(uses(lines[at], entry.name) for at in region):
            return lines[: entry.at] + lines[entry.at + 1 :]
        if any(other.at in region and other.name == entry.name for other in declared):
            continue
        equal = (
            other.name
            for other in declared
            if entry.at in regions[other.at] and (other.kind, other.value) == (entry.kind, entry.value)
        )
        source = entry.value if _WORD.fullmatch(entry.value) else next(equal, None)
        if source is None:
            continue
        if source in GENERIC and entry.name not in GENERIC and _can_rename(lines, source, entry):
            renamed = [re.sub(rf"\b{source}\b", entry.name, line) for line in lines]
            return [line for line in renamed if not _assigns_itself(line, entry.name)]
        if any(_assigns(lines[at], source) for at in region):
            continue
        inside = [re.sub(rf"\b{entry.name}\b", source, lines[at]) for at in region]
        return [*lines[: entry.at], *inside, *lines[region.stop :]]
    return None


def _assigns(line: str, name: str) -> bool:
    return re.search(rf"(?<![\w.]){name} [-+*/]?= ", line) is not None


def _can_rename(lines: Sequence[str], source: str, copy: _Declared) -> bool:
    """Whether `source` may take the name of its copy everywhere: nothing else has that name."""
    copies = {at for at, line in enumerate(lines) if re.search(rf"\b{copy.name} = {source};?$", line)}
    depths = _depths(lines)
    regions = {
        at
        for number in copies
        for at in _scope_after(depths, _Declared(number, depths[number], "", copy.name, source))
    }
    elsewhere = set(range(len(lines))) - copies - regions
    again = [at for at in regions - copies if _assigns(lines[at], copy.name)]
    return not again and not any(uses(lines[at], copy.name) for at in elsewhere)


def _assigns_itself(line: str, name: str) -> bool:
    return re.fullmatch(rf" *(int |float )?{name} = {name};?", line) is not None


def _hoist_repeated(lines: list[str], repeated: str, name: str, where: str) -> list[str]:
    """A subexpression that a block repeats, computed once into a variable; the regex `where` finds it."""
    if sum(line.count(repeated) for line in lines) < 2:
        return lines
    pattern = re.compile(where)
    cpp = any(line.rstrip().endswith(";") for line in lines)
    start = 0
    while True:
        blocks = [
            block for block in _blocks(lines, start) if sum(len(pattern.findall(lines[i])) for i in block) > 1
        ]
        if not blocks:
            return lines
        block = blocks[0]
        first = next(i for i in block if pattern.search(lines[i]))
        label, number = name, 1
        while any(uses(line, label) for line in lines):
            number += 1
            label = f"{name}_{number}"
        integer = name == "at" or repeated.startswith("(int)")
        kind = ("int " if integer else "float ") if cpp else ""
        line = f"{' ' * _depths(lines)[first]}{kind}{label} = {repeated}{';' * cpp}"
        for i in block:
            lines[i] = pattern.sub(label, lines[i])
        lines = [*lines[:first], line, *lines[first:]]
        start = first + 1


def _blocks(lines: Sequence[str], start: int) -> Iterator[list[int]]:
    """Basic blocks: runs of neighbouring statements of one depth, as line numbers."""
    run: list[int] = []
    depths = _depths(lines)
    for at in range(start, len(lines)):
        header = lines[at].lstrip().startswith(("for ", "if ", "}", "#", "else"))
        if run and (header or depths[at] != depths[run[-1]]):
            yield run
            run = []
        if not header:
            run.append(at)
    if run:
        yield run


def _without_numbers(lines: list[str]) -> list[str]:
    """`row_2` becomes `row` where nothing else in its scope has that name."""
    for entry in _declarations(lines):
        match = _NUMBERED.match(entry.name)
        if match is None:
            continue
        plain, depths = match[1].rstrip("_"), _depths(lines)
        region = [entry.at, *_scope_after(depths, entry)] if entry.kind else range(len(lines))
        visible = [other.name for other in _declarations(lines) if entry.at in _scope_after(depths, other)]
        is_counter = any(f"for (int {plain} =" in line for line in lines)
        if plain not in visible and not is_counter and not any(uses(lines[at], plain) for at in region):
            for at in region:
                lines[at] = re.sub(rf"\b{entry.name}\b", plain, lines[at])
    return lines
