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


def _windows(image: Array, radius: int) -> Array:
    """All shifts of a picture inside a square window, clamped: (2 radius + 1, 2 radius + 1, height, width)."""
    height, width = image.shape
    padded = np.pad(image, radius, mode="edge")
    span = range(2 * radius + 1)
    return np.array([[padded[dy : dy + height, dx : dx + width] for dx in span] for dy in span])


def rgb_to_gray(arrays: Arrays, sizes: Sizes, scalars: Scalars) -> dict[str, Array]:
    """Rounded luma with weights 77, 150, 29 of 256."""
    rgb = arrays["rgb"].astype(np.int64).reshape(-1, 3)
    return {"gray": (rgb @ np.array([77, 150, 29]) + 128) // 256}


def sobel(arrays: Arrays, sizes: Sizes, scalars: Scalars) -> dict[str, Array]:
    """|gx| + |gy|, at most 255."""
    window = _windows(arrays["image"].astype(np.int64), 1)
    smooth = np.array([1, 2, 1])
    gx = np.tensordot(smooth, window[:, 2] - window[:, 0], 1)
    gy = np.tensordot(smooth, window[2] - window[0], 1)
    return {"edges": np.minimum(np.abs(gx) + np.abs(gy), 255)}


def median3x3(arrays: Arrays, sizes: Sizes, scalars: Scalars) -> dict[str, Array]:
    """The fifth of nine."""
    window = _windows(arrays["image"].astype(np.int64), 1)
    return {"out": np.sort(window.reshape(9, *arrays["image"].shape), axis=0)[4]}


ORACLES = {
    "gaussian-blur": gaussian_blur,
    "rgb-to-gray": rgb_to_gray,
    "sobel": sobel,
    "median3x3": median3x3,
}
