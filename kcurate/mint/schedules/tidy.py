"""Makes the lines of a kernel what a person would leave: nothing unused, nothing computed twice in a scope.

Scopes are indentation, in C++ and in Triton alike. A declaration gives a value to a name that nothing assigns
again; copies of names go, equal ones are shared, indices and loads that stand twice get a name. Not covered:
what is computed (`writer`, `kernels`).
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

# Names of places that say nothing about what stands there: a name of an axis is better.
GENERIC = frozenset(
    {"e", "item", "flat", "inner", "row_at", "column_at", "down", "across"}
    | {"row_a", "deep_a", "column_b", "deep_b"}
)
_DECLARATION = re.compile(r"( *)((?:int |float )?)([A-Za-z_]\w*) = (.+?)(;?)$")
_SEVERAL = re.compile(r", \w+ = \w")
_ASSIGNED = re.compile(r"(?<![\w.])(\w+)(?:\[[^=\n]*\])? [-+*/]?= |&(\w+)\b|\+\+(\w+)\b")
_TYPED = re.compile(r"(?:\bint |\bfloat |, )(\w+) = ")
_LOOPED = re.compile(r"\bfor (\w+) in ")
_WORD = re.compile(r"[A-Za-z_]\w*")
_NUMBERED = re.compile(r"([A-Za-z_]\w*?_)(\d+)$")


@dataclass(frozen=True)
class _Declared:
    at: int
    depth: int
    kind: str
    name: str
    value: str


def tidied(lines: Sequence[str], places: Iterable[str], loads: Iterable[tuple[str, str]]) -> list[str]:
    """The lines of a kernel's body, shorter.

    `places`: texts of indices; `loads`: texts of elements that may be read wherever the line stands, each
    with the name of its array.
    """
    text = list(lines)
    for load, array in sorted(loads):
        text = _shared(text, load, f"{array}_value", rf"(?<![\w.]){re.escape(load)}(?![\w(\[.])")
    for place in sorted(places, key=lambda text: (-len(text), text)):
        if not _WORD.fullmatch(place):
            text = _shared(text, place, "at", rf"(?:(?<=\w\[)|(?<=\w \+ )){re.escape(place)}(?=[\],)])")
    text = _whole(text)
    while (shorter := _step(text)) is not None:
        text = shorter
    return _renumbered(text)


def _whole(lines: list[str]) -> list[str]:
    """The lines with the index that was divided where its parts are put together again."""
    values = {entry.value: entry.name for entry in _declarations(lines)}
    for value, quotient in values.items():
        match = re.fullmatch(r"(\w+) //? (\w+)", value)
        remainder = match and values.get(f"{match[1]} % {match[2]}")
        if match and remainder:
            parts = rf"{quotient} \* {match[2]} \+ {remainder}(?![\w.])(?! [*/%])"
            pattern = re.compile(rf"\({parts}\)|(?<![*/%] )(?<![\w.]){parts}")
            lines = [pattern.sub(match[1], line) for line in lines]
    return lines


def uses(text: str, name: str) -> bool:
    """Whether a name stands in a text."""
    return name in text and re.search(rf"\b{name}\b", text) is not None


def _declarations(lines: Sequence[str]) -> list[_Declared]:
    """The declarations of names that are given a value once, or anew in scopes of their own."""
    typed = any(line.endswith(";") for line in lines)
    changed = _changed("\n".join(lines), typed=typed)
    matches = ((at, match) for at, line in enumerate(lines) if (match := _DECLARATION.match(line)))
    return [
        _Declared(at, len(match[1]), match[2], match[3], match[4])
        for at, match in matches
        if bool(match[2]) == typed and match[3] not in changed and not (typed and _SEVERAL.search(match[4]))
    ]


def _changed(text: str, *, typed: bool) -> set[str]:
    """The names that something assigns when they have a value, or whose address it takes."""
    assigned = Counter(next(filter(None, match.groups())) for match in _ASSIGNED.finditer(text))
    declared = Counter(_TYPED.findall(text)) if typed else Counter(dict.fromkeys(assigned, 1))
    looped = set() if typed else set(_LOOPED.findall(text))
    return {name for name, count in assigned.items() if count > declared[name]} | looped


def _region(depths: Sequence[int], declared: _Declared) -> range:
    """The lines behind a declaration that are in its scope; `depths` as of `_depths`."""
    end = declared.at + 1
    while end < len(depths) and depths[end] >= declared.depth:
        end += 1
    return range(declared.at + 1, end)


def _depths(lines: Sequence[str]) -> list[int]:
    return [len(line) - len(line.lstrip(" ")) for line in lines]


def _step(lines: list[str]) -> list[str] | None:
    """The lines without one that is not needed; None if all are."""
    declared, depths = _declarations(lines), _depths(lines)
    regions = {entry.at: _region(depths, entry) for entry in declared}
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
        if source in GENERIC and entry.name not in GENERIC and _may_be_called(lines, source, entry):
            renamed = [re.sub(rf"\b{source}\b", entry.name, line) for line in lines]
            return [line for line in renamed if not _assigns_itself(line, entry.name)]
        if any(_gives(lines[at], source) for at in region):
            continue
        inside = [re.sub(rf"\b{entry.name}\b", source, lines[at]) for at in region]
        return [*lines[: entry.at], *inside, *lines[region.stop :]]
    return None


def _gives(line: str, name: str) -> bool:
    return re.search(rf"(?<![\w.]){name} [-+*/]?= ", line) is not None


def _may_be_called(lines: Sequence[str], source: str, copy: _Declared) -> bool:
    """Whether all of a text may say the copy's name for its source: the copy's name means nothing else."""
    copies = {at for at, line in enumerate(lines) if re.search(rf"\b{copy.name} = {source};?$", line)}
    depths = _depths(lines)
    regions = {
        at
        for number in copies
        for at in _region(depths, _Declared(number, depths[number], "", copy.name, source))
    }
    elsewhere = set(range(len(lines))) - copies - regions
    again = [at for at in regions - copies if _gives(lines[at], copy.name)]
    return not again and not any(uses(lines[at], copy.name) for at in elsewhere)


def _assigns_itself(line: str, name: str) -> bool:
    return re.fullmatch(rf" *(int |float )?{name} = {name};?", line) is not None


def _shared(lines: list[str], repeated: str, name: str, where: str) -> list[str]:
    """The lines with a name for a text that stands in them more than once in a block (`where` finds it)."""
    if sum(line.count(repeated) for line in lines) < 2:
        return lines
    pattern = re.compile(where)
    typed = any(line.rstrip().endswith(";") for line in lines)
    done = 0
    while True:
        blocks = [
            block for block in _blocks(lines, done) if sum(len(pattern.findall(lines[i])) for i in block) > 1
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
        kind = ("int " if integer else "float ") if typed else ""
        line = f"{' ' * _depths(lines)[first]}{kind}{label} = {repeated}{';' * typed}"
        for i in block:
            lines[i] = pattern.sub(label, lines[i])
        lines = [*lines[:first], line, *lines[first:]]
        done = first + 1


def _blocks(lines: Sequence[str], start: int) -> Iterator[list[int]]:
    """Runs of neighbouring statements of one depth."""
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


def _renumbered(lines: list[str]) -> list[str]:
    """Names without numbers where nothing else in their scope has the name."""
    for entry in _declarations(lines):
        match = _NUMBERED.match(entry.name)
        if match is None:
            continue
        plain, depths = match[1].rstrip("_"), _depths(lines)
        region = [entry.at, *_region(depths, entry)] if entry.kind else range(len(lines))
        visible = [other.name for other in _declarations(lines) if entry.at in _region(depths, other)]
        looped = any(f"for (int {plain} =" in line for line in lines)
        if plain not in visible and not looped and not any(uses(lines[at], plain) for at in region):
            for at in region:
                lines[at] = re.sub(rf"\b{entry.name}\b", plain, lines[at])
    return lines
