"""A user's own reward: `module:function`, imported from the working directory or the environment; or the
name of a plugin's (entry points `kcurate.rewards`).

The function gets a group (the completions of one task, as `schemes.Earned`) and returns for each a number, or
its terms by name. Only training and evaluation import it; `kcurate serve` accepts names of schemes only. Not
covered: the schemes that ship with kcurate (`schemes`).
"""

from __future__ import annotations

import importlib
import inspect
import math
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from kcurate.core import plugins
from kcurate.errors import InputError
from kcurate.reward import schemes
from kcurate.reward.schemes import Earned, Scheme, Terms


def chosen(name: str, values: Mapping[str, Any]) -> Scheme:
    """The scheme of that name, a plugin's, or the user's function if the name has a colon.

    `values` are its keywords. A scheme that ships goes before a plugin of the same name.

    Raises:
        InputError: no such scheme, module or function; or a value that it does not take.
    """
    if ":" in name:
        function = _imported(name)
    else:
        plugin = None if name in schemes.SCHEMES else plugins.one(plugins.REWARDS, name, _wrong)
        if plugin is None:
            return schemes.make(name, values, plugins.names(plugins.REWARDS))
        if isinstance(plugin, str):
            raise InputError(plugin, where=name)
        name, function = plugin.label, plugin.value
    try:
        inspect.signature(function).bind([], **values)
    except TypeError as error:
        raise InputError(f"does not take what it is given: {error}", where=name) from error
    return partial(_terms, name, partial(function, **values))


def check_name(name: str) -> None:
    """Refuse a name that neither a scheme nor a plugin has.

    Raises:
        InputError: it is such a name.
    """
    others = plugins.names(plugins.REWARDS)
    if ":" not in name and name not in others:
        schemes.make(name, others=others)


def _imported(name: str) -> Callable[..., Any]:
    module, _, function = name.partition(":")
    if (here := str(Path.cwd())) not in sys.path:
        sys.path.insert(0, here)
    try:
        reward = getattr(importlib.import_module(module), function)
    except Exception as error:  # the module is the user's code, which may raise anything
        raise InputError(f"cannot import the reward: {plugins.one_line(error)}", where=name) from error
    if not callable(reward):
        raise InputError("the reward is not a function", where=name)
    return reward  # type: ignore[no-any-return]


def _wrong(value: Any) -> str | None:
    return None if callable(value) else f"{value!r} is not a function"[: plugins.MAX_SHOWN]


def _terms(name: str, function: Callable[[Sequence[Earned]], Any], group: Sequence[Earned]) -> list[Terms]:
    """What the function returns, checked: a number or terms for every completion.

    Raises:
        InputError: it failed, or returned something else.
    """
    if not group:
        return []
    try:
        rewards = list(function(group))
        terms = [dict(reward) if isinstance(reward, Mapping) else {"reward": reward} for reward in rewards]
        terms = [{str(key): float(value) for key, value in parts.items()} for parts in terms]
    except Exception as error:  # as above
        raise InputError(f"the reward failed: {plugins.one_line(error)}", where=name) from error
    if len(terms) != len(group):
        raise InputError(f"{len(terms)} rewards for {len(group)} completions", where=name)
    if not all(math.isfinite(sum(parts.values())) for parts in terms):
        raise InputError("a reward is NaN or infinite", where=name)
    return terms
