"""References of the dense linear algebra pairs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]
Arrays = Mapping[str, Array]
Sizes = Mapping[str, int]
Scalars = Mapping[str, float]


def gemm(arrays: Arrays, sizes: Sizes, scalars: Scalars) -> dict[str, Array]:
    """C = alpha A B + beta C, with A (m, k) and C (m, n) stored by columns and B (k, n) by rows."""
    product = arrays["b"].astype(np.float64).T @ arrays["a"].astype(np.float64)
    return {"c": scalars["alpha"] * product + scalars["beta"] * arrays["c"].astype(np.float64)}


ORACLES = {"gemm": gemm}
