"""References of the stencil and partial differential equation pairs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]
Arrays = Mapping[str, Array]
Sizes = Mapping[str, int]
Scalars = Mapping[str, float]


def stencil2d_5pt(arrays: Arrays, sizes: Sizes, scalars: Scalars) -> dict[str, Array]:
    """One sweep inside; the rim is kept."""
    u = arrays["in"].astype(np.float64)
    out = u.copy()
    around = u[:-2, 1:-1] + u[2:, 1:-1] + u[1:-1, :-2] + u[1:-1, 2:]
    out[1:-1, 1:-1] = scalars["centre"] * u[1:-1, 1:-1] + scalars["side"] * around
    return {"out": out}


def heat2d(arrays: Arrays, sizes: Sizes, scalars: Scalars) -> dict[str, Array]:
    """4 `rounds` explicit steps of the heat equation; the rim is kept."""
    u = arrays["in"].astype(np.float64)
    for _ in range(4 * sizes["rounds"]):
        around = u[:-2, 1:-1] + u[2:, 1:-1] + u[1:-1, :-2] + u[1:-1, 2:]
        new = u.copy()
        new[1:-1, 1:-1] += scalars["k"] * (around - 4.0 * u[1:-1, 1:-1])
        u = new
    return {"out": u}


ORACLES = {"stencil2d-5pt": stencil2d_5pt, "heat2d": heat2d}
