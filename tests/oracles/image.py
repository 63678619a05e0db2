"""References of the image and signal pairs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]
Arrays = Mapping[str, Array]
Sizes = Mapping[str, int]
Scalars = Mapping[str, float]


def gaussian_blur(arrays: Arrays, sizes: Sizes, scalars: Scalars) -> dict[str, Array]:
    """Correlation with the outer product of `taps`; borders are clamped."""
    radius, (height, width) = sizes["radius"], arrays["image"].shape
    image = np.pad(arrays["image"].astype(np.float64), radius, mode="edge")
    taps = arrays["taps"].astype(np.float64)
    out = np.zeros((height, width))
    for dy, dx in np.ndindex(taps.size, taps.size):
        out += taps[dy] * taps[dx] * image[dy : dy + height, dx : dx + width]
    return {"out": out}


ORACLES = {"gaussian-blur": gaussian_blur}
