"""Plugins of installed packages, by entry points: rewrite rules, readers of files, rewards.

| group | an entry point is | used by |
|---|---|---|
| `kcurate.rules` | a `Rule`, or several in a sequence (`kcurate.deopt.rules`) | `kcurate deopt` |
| `kcurate.readers` | a `FormReader` (`kcurate.forms.readers`) | `kcurate extract` |
| `kcurate.rewards` | a function of a group of completions (`kcurate.reward.own_reward`) | `--reward NAME` |

An entry point that cannot be loaded, or has another type, is reported in one line. Not covered: how each is
used (the modules named above); `examples/plugin/` has one of each.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from typing import Any

RULES, READERS, REWARDS = "kcurate.rules", "kcurate.readers", "kcurate.rewards"
MAX_SHOWN = 200


@dataclass(frozen=True)
class Plugin:
    """An entry point that was loaded: `label` names it and its package in messages."""

    name: str
    label: str
    value: Any


@dataclass(frozen=True)
class Loaded:
    """The plugins of a group in the order of their names; one line for each that is not used."""

    plugins: tuple[Plugin, ...] = ()
    refused: tuple[str, ...] = ()


# Why a value is not one of its group; None: it is one.
Wrong = Callable[[Any], str | None]


def names(group: str) -> tuple[str, ...]:
    """The names of a group's entry points; none is imported."""
    return tuple(sorted({point.name for point in entry_points(group=group)}))


def one(group: str, name: str, wrong: Wrong) -> Plugin | str | None:
    """The plugin of that name, the line on why it cannot be used, or None if there is none."""
    points = _points(group)
    return next((_loaded(point, wrong) for point in points if point.name == name), None)


@cache
def every(group: str, wrong: Wrong) -> Loaded:
    """All plugins of a group; loaded once in a process."""
    answers = [_loaded(point, wrong) for point in _points(group)]
    return Loaded(
        tuple(answer for answer in answers if isinstance(answer, Plugin)),
        tuple(answer for answer in answers if isinstance(answer, str)),
    )


def one_line(error: BaseException) -> str:
    """An exception of a plugin in one line."""
    return " ".join(f"{type(error).__name__}: {error}".split())[:MAX_SHOWN]


def _points(group: str) -> list[EntryPoint]:
    return sorted(entry_points(group=group), key=lambda point: (point.name, point.value))


def _loaded(point: EntryPoint, wrong: Wrong) -> Plugin | str:
    package = f" of {point.dist.name}" if point.dist is not None else ""
    label = f"plugin {point.name!r}{package} ({point.group})"
    try:
        value = point.load()
        why = wrong(value)
    except (Exception, SystemExit) as error:  # noqa: BLE001 - the boundary around a stranger's module
        why = one_line(error)
    return Plugin(point.name, label, value) if why is None else f"{label} is not used: {why}"
