"""References of the particle and Monte Carlo pairs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]
Arrays = Mapping[str, Array]
Sizes = Mapping[str, int]
Scalars = Mapping[str, float]


def nbody(arrays: Arrays, sizes: Sizes, scalars: Scalars) -> dict[str, Array]:
    """Sum over j of m_j d / (|d|^2 + softening^2)^(3/2), with d from i to j."""
    bodies = arrays["bodies"].astype(np.float64)
    offset = bodies[None, :, :3] - bodies[:, None, :3]
    distance2 = (offset**2).sum(axis=2) + scalars["softening"] ** 2
    return {"acceleration": np.einsum("ij,ijd->id", bodies[None, :, 3] / distance2**1.5, offset)}


ORACLES = {"nbody": nbody}
