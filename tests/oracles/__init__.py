"""Float64 references of the built-in pairs, written from the mathematics alone.

A module a theme; each defines `ORACLES`: a family to a function of the initial arrays by buffer name
(roles `in` and `inout`), the sizes and the scalars, that gives every output by name. `ORACLES` here has all.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]
Arrays = Mapping[str, Array]
Oracle = Callable[[Arrays, Mapping[str, int], Mapping[str, float]], dict[str, Array]]


def _collect() -> dict[str, Oracle]:
    found: dict[str, Oracle] = {}
    for module in sorted(info.name for info in pkgutil.iter_modules(__path__)):
        listed: Mapping[str, Oracle] = importlib.import_module(f"{__name__}.{module}").ORACLES
        twice = found.keys() & listed.keys()
        if twice:
            raise ValueError(f"two oracles for {', '.join(sorted(twice))}")
        found.update(listed)
    return found


def wide(array: Array) -> Array:
    """The same values in float64 (int64 for integers)."""
    return array.astype(np.float64 if array.dtype.kind == "f" else np.int64)


ORACLES = _collect()
