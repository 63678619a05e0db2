"""References of the deep learning pairs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import special

Array = npt.NDArray[Any]
Arrays = Mapping[str, Array]
Sizes = Mapping[str, int]
Scalars = Mapping[str, float]


def softmax_rows(x: Array) -> Array:
    """Softmax along the last axis."""
    powers = np.exp(x - x.max(axis=-1, keepdims=True))
    return np.asarray(powers / powers.sum(axis=-1, keepdims=True))


def softmax(arrays: Arrays, sizes: Sizes, scalars: Scalars) -> dict[str, Array]:
    """Of each row."""
    return {"out": softmax_rows(arrays["in"].astype(np.float64))}


def layernorm(arrays: Arrays, sizes: Sizes, scalars: Scalars) -> dict[str, Array]:
    """(x - mean) / sqrt(variance + eps) * weight + bias, of each row."""
    x, weight, bias = (arrays[name].astype(np.float64) for name in ("in", "weight", "bias"))
    mean, variance = x.mean(axis=1, keepdims=True), x.var(axis=1, keepdims=True)
    return {"out": (x - mean) / np.sqrt(variance + scalars["eps"]) * weight + bias}


def residual_rmsnorm(arrays: Arrays, sizes: Sizes, scalars: Scalars) -> dict[str, Array]:
    """The sum with the residual, and that over its root mean square, by row, times the weight."""
    x, weight, residual = (arrays[name].astype(np.float64) for name in ("x", "weight", "residual"))
    whole = (x + residual).astype(np.float16).astype(np.float64)
    scale = 1.0 / np.sqrt((whole**2).mean(axis=1, keepdims=True) + scalars["eps"])
    return {"residual": whole, "out": whole * scale * weight}


def bias_gelu(arrays: Arrays, sizes: Sizes, scalars: Scalars) -> dict[str, Array]:
    """gelu(x + bias) + residual, with the error function."""
    x = arrays["in"].astype(np.float64) + arrays["bias"].astype(np.float64)
    return {"out": 0.5 * x * (1.0 + special.erf(x / np.sqrt(2.0))) + arrays["residual"].astype(np.float64)}


def cross_entropy(arrays: Arrays, sizes: Sizes, scalars: Scalars) -> dict[str, Array]:
    """-log softmax(logits)[label], of each row."""
    x = arrays["logits"].astype(np.float64)
    chosen = np.take_along_axis(x, arrays["labels"][:, None].astype(np.int64), axis=1)[:, 0]
    largest = x.max(axis=1)
    return {"loss": np.log(np.exp(x - largest[:, None]).sum(axis=1)) + largest - chosen}


ORACLES = {
    "softmax": softmax,
    "layernorm": layernorm,
    "residual-rmsnorm": residual_rmsnorm,
    "bias-gelu": bias_gelu,
    "cross-entropy": cross_entropy,
}
