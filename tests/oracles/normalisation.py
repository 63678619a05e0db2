"""References of the normalisation pairs: forward, backward, with quantised outputs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]
Arrays = Mapping[str, Array]
Sizes = Mapping[str, int]
Scalars = Mapping[str, float]


def doubles(arrays: Arrays, names: str) -> list[Array]:
    """The named arrays in float64."""
    return [arrays[name].astype(np.float64) for name in names.split()]


def layernorm_backward(arrays: Arrays, sizes: Sizes, scalars: Scalars) -> dict[str, Array]:
    """Gradients of (x - mean) * rstd * weight + bias, with mean and rstd functions of x."""
    x, dy, weight, mean, rstd = doubles(arrays, "x dy weight mean rstd")
    normal, g = (x - mean[:, None]) * rstd[:, None], dy * weight
    pulled = g.mean(axis=1, keepdims=True) + normal * (g * normal).mean(axis=1, keepdims=True)
    return {
        "dx": rstd[:, None] * (g - pulled),
        "dweight": (dy * normal).sum(axis=0),
        "dbias": dy.sum(axis=0),
    }


def rmsnorm_backward(arrays: Arrays, sizes: Sizes, scalars: Scalars) -> dict[str, Array]:
    """Gradients of x / rms(x) * weight."""
    x, dy, weight = doubles(arrays, "x dy weight")
    rstd = 1.0 / np.sqrt((x * x).mean(axis=1, keepdims=True) + scalars["eps"])
    normal, g = x * rstd, dy * weight
    dx = rstd * (g - normal * (g * normal).mean(axis=1, keepdims=True))
    return {"dx": dx, "dweight": (dy * normal).sum(axis=0)}


def softmax_backward(arrays: Arrays, sizes: Sizes, scalars: Scalars) -> dict[str, Array]:
    """y * (dy - sum(y * dy)), of each row."""
    y, dy = doubles(arrays, "y dy")
    return {"dx": y * (dy - (y * dy).sum(axis=1, keepdims=True))}


ORACLES = {
    "layernorm-backward": layernorm_backward,
    "rmsnorm-backward": rmsnorm_backward,
    "softmax-backward": softmax_backward,
}
