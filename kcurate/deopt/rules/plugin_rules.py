"""Rules that installed plugins add (entry points `kcurate.rules`), applied after all others.

A plugin's rule is trusted as Python, since it is installed; what it writes is judged like any other slow
side. Not covered: finding plugins (`kcurate.core.plugins`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

from kcurate.core import plugins
from kcurate.core.plugins import Plugin
from kcurate.deopt import rules as built_in
from kcurate.deopt.rules.base import NotApplicable, Rule, Subject
from kcurate.records import Side


@dataclass(frozen=True)
class PluginFailed(NotApplicable):
    """A plugin's rule raised, or returned no side; `reason` names the plugin."""


@dataclass(frozen=True)
class PluginRules:
    """The rules of plugins, and one line for each plugin or rule that is not used."""

    rules: tuple[Rule, ...]
    refused: tuple[str, ...]


@cache
def loaded() -> PluginRules:
    """The rules of all plugins, in the order of the plugins' names; of two with the same name the first."""
    answer = plugins.every(plugins.RULES, _wrong)
    rules: dict[str, Rule] = {}
    refused = list(answer.refused)
    taken = {rule.name for rule in built_in.RULES}
    for plugin in answer.plugins:
        for rule in _listed(plugin.value):
            if rule.name in taken:
                refused.append(f"{plugin.label}: its rule {rule.name!r} is not used: the name is taken")
                continue
            taken.add(rule.name)
            rules[rule.name] = _guarded(rule, plugin)
    return PluginRules(tuple(rules.values()), tuple(refused))


def _guarded(rule: Rule, plugin: Plugin) -> Rule:
    """The rule, as one that returns `PluginFailed` if the plugin's function raises or returns something
    else."""

    def change(subject: Subject) -> Side | NotApplicable:
        try:
            changed: Any = rule.change(subject)
        except Exception as error:  # noqa: BLE001 - the boundary around a stranger's function
            return PluginFailed(f"{plugin.label}: rule {rule.name!r} failed: {plugins.one_line(error)}")
        if not isinstance(changed, Side | NotApplicable):
            what = f"returned {type(changed).__name__}, not a Side or NotApplicable"
            return PluginFailed(f"{plugin.label}: rule {rule.name!r} {what}")
        return changed

    return replace(rule, change=change)


def _listed(value: Any) -> Sequence[Rule]:
    return (value,) if isinstance(value, Rule) else value


def _wrong(value: Any) -> str | None:
    every = _listed(value)
    if isinstance(every, list | tuple) and every and all(isinstance(rule, Rule) for rule in every):
        return None
    return f"{value!r} is no rule"[: plugins.MAX_SHOWN]
