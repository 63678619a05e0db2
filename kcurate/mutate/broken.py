"""Mistakes that show at every size: code that does not compile, plans that do not match the code.

Not covered: mistakes in what is computed (`kcurate.mutate.wrong`).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace

from kcurate.mutate.choosing import Change, of_text
from kcurate.mutate.spans import KEYWORDS, TYPES, Changes, Code, Edit
from kcurate.mutate.wrong import OPERATORS
from kcurate.records import Launch, Side


def lost_declaration(code: Code) -> Changes:
    """A local variable is used but not declared."""
    for i in code.words("int", "float", "unsigned", "double"):
        name = code.at(i + 1)
        if code.tokens[i + 1].kind == "word" and code.at(i + 2) == "=" and code.at(i - 1) in (";", "{", "}"):
            end = code.ending(i, ";")
            if end is not None and any(code.at(k) == name for k in range(end, len(code.tokens))):
                yield name, (Edit(code.tokens[i].start, code.tokens[end].end, ""),)


def misspelt_call(code: Code) -> Changes:
    """A call to an intrinsic without its leading underscores."""
    for i, token in enumerate(code.tokens):
        name = token.text
        if (
            name.startswith("__")
            and code.at(i + 1) == "("
            and name not in KEYWORDS | TYPES
            and name.islower()
        ):
            yield name, (code.instead(i, name.lstrip("_")),)


def lost_semicolon(code: Code) -> Changes:
    """A missing semicolon."""
    for i, token in enumerate(code.tokens):
        if token.text == ";" and code.at(i + 1) not in ("", "}", ")") and code.at(i - 1) in (")", "]"):
            yield f"{code.at(i - 2)}{code.at(i - 1)};", (Edit(token.start, token.end, ""),)


def endless_loop(code: Code) -> Changes:
    """A loop whose variable never changes."""
    for i in code.words("for"):
        parts = code.text_of((i + 1, code.partner[i + 1])) if i + 1 in code.partner else ""
        match = re.search(r";([^;]*(?:\+\+|\+=)[^;]*)\)$", parts)
        if match is not None:
            start = code.tokens[i + 1].start + match.start(1)
            yield match[1].strip(), (Edit(start, start + len(match[1]), ""),)


def _launches(change: Callable[[Launch], Launch | None]) -> Change:
    """Apply a change to each launch of the plan, outside loops, one at a time."""

    def changed(side: Side) -> Iterator[tuple[str, Side]]:
        for at, step in enumerate(side.plan):
            launch = change(step) if isinstance(step, Launch) else None
            if isinstance(step, Launch) and launch is not None:
                yield step.launch, replace(side, plan=(*side.plan[:at], launch, *side.plan[at + 1 :]))

    return changed


def missing_argument(launch: Launch) -> Launch | None:
    """A launch without its last argument."""
    return replace(launch, args=launch.args[:-1]) if launch.args else None


def unknown_kernel(launch: Launch) -> Launch | None:
    """A launch of a kernel that the code does not have."""
    return replace(launch, launch=f"{launch.launch}_kernel")


def half_the_grid(launch: Launch) -> Launch | None:
    """A grid that covers half of the work."""
    first = launch.grid[0]
    return None if first in (1, "1") else replace(launch, grid=(f"ceil_div({first}, 2)", *launch.grid[1:]))


ATTEMPTS: Mapping[str, Change] = {
    **OPERATORS,
    **{
        function.__name__: of_text(function)
        for function in (lost_declaration, misspelt_call, lost_semicolon, endless_loop)
    },
    **{
        function.__name__: _launches(function)
        for function in (missing_argument, unknown_kernel, half_the_grid)
    },
}
