"""The `__constant__` variables that a device file leaves uninitialised. Not covered: `__device__` ones."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from kcurate.draft.algebra import of_text
from kcurate.draft.usage import DeviceCode
from kcurate.problem.c_types import Element


@dataclass(frozen=True)
class Symbol:
    """A variable: its element type and number of elements; None where the text does not tell."""

    name: str
    element: Element | None
    count: int | None


def symbols(code: DeviceCode, element: Callable[[str], Element | None]) -> Iterator[Symbol]:
    """Every `__constant__` variable without an initial value."""
    for item in code.items:
        if item.kind != "variable" or b"__constant__" not in item.qualifiers:
            continue
        text = code.text[item.start : item.end]
        if "=" in text:
            continue
        bare = re.sub(
            r"__(?:constant|device|align)__\s*(?:\(\s*\d+\s*\))?|\b(?:static|extern|const)\b", " ", text
        )
        match = re.fullmatch(r"\s*([\w\s:]+?)\s+(\w+)\s*((?:\[[^\]]*\]\s*)*);?\s*", bare)
        if match is None:
            yield Symbol(item.names[-1].decode("latin-1"), None, None)
            continue
        yield Symbol(match[2], element(match[1]), _count(match[3], code))


def _count(text: str, code: DeviceCode) -> int | None:
    total = 1
    for extent in re.findall(r"\[([^\]]*)\]", text):
        for _ in range(8):
            extent = re.sub(
                r"[A-Za-z_]\w*", lambda m: f"({code.macros[m[0]]})" if m[0] in code.macros else m[0], extent
            )
        poly = of_text(extent)
        if poly is None or poly.constant is None:
            return None
        total *= poly.constant
    return total
