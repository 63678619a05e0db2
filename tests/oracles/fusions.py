"""References of linear layers and convolutions fused with what follows them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from kcurate.problem.dtypes import numpy_dtype
from tests.oracles.normalisation import doubles, normalised

Array = npt.NDArray[Any]
Arrays = Mapping[str, Array]
Sizes = Mapping[str, int]
Scalars = Mapping[str, float]


def sigmoid(x: Array) -> Array:
    """1 / (1 + exp(-x))"""
    return np.asarray(1.0 / (1.0 + np.exp(-x)))


def linear(arrays: Arrays) -> Array:
    """x W^T + bias."""
    x, w, bias = doubles(arrays, "x w bias")
    return np.asarray(x @ w.T + bias)


def linear_sigmoid_residual(arrays: Arrays, sizes: Sizes, scalars: Scalars) -> dict[str, Array]:
    """v + scale * sigmoid(v) of the linear layer's v."""
    v = linear(arrays)
    return {"y": v + scalars["scale"] * sigmoid(v)}


def linear_swish_groupnorm(arrays: Arrays, sizes: Sizes, scalars: Scalars) -> dict[str, Array]:
    """Swish, then groups of 64 features to mean 0 and variance 1, with weight and shift."""
    v = linear(arrays)
    v *= sigmoid(v)
    normal = normalised(v.reshape(len(v), -1, 64), scalars["eps"]).reshape(v.shape)
    weight, shift = doubles(arrays, "weight shift")
    return {"y": normal * weight + shift}


def linear_logsumexp_mish(arrays: Arrays, sizes: Sizes, scalars: Scalars) -> dict[str, Array]:
    """L * mish(L) of each row's log-sum-exp L of the scaled, doubled, clamped features."""
    v = np.clip(2.0 * scalars["scale"] * linear(arrays), scalars["low"], scalars["high"])
    total = np.log(np.exp(v).sum(axis=1))
    return {"y": total * total * np.tanh(np.log1p(np.exp(total)))}


def linear_pool_sum(arrays: Arrays, sizes: Sizes, scalars: Scalars) -> dict[str, Array]:
    """The scaled sum of the larger of each two neighbouring features; an odd last one is left out."""
    v = linear(arrays)[:, : sizes["n"] // 2 * 2]
    return {"y": scalars["scale"] * v.reshape(len(v), -1, 2).max(axis=2).sum(axis=1)}


def lora_linear(arrays: Arrays, sizes: Sizes, scalars: Scalars) -> dict[str, Array]:
    """x W^T + scale * (x A^T) B^T."""
    x, w, a, b = doubles(arrays, "x w a b")
    return {"y": x @ w.T + scalars["scale"] * (x @ a.T) @ b.T}


def linear_row_sum(arrays: Arrays, sizes: Sizes, scalars: Scalars) -> dict[str, Array]:
    """The scaled sum of each row's features."""
    return {"y": scalars["scale"] * linear(arrays).sum(axis=1)}


def linear_relu_fp8(arrays: Arrays, sizes: Sizes, scalars: Scalars) -> dict[str, Array]:
    """relu of the linear layer over the scale, rounded to 8 bits."""
    y = np.maximum(linear(arrays), 0.0) / scalars["scale"]
    return {"y": y.astype(numpy_dtype("float8_e4m3"))}


ORACLES = {
    "linear-sigmoid-residual": linear_sigmoid_residual,
    "linear-swish-groupnorm": linear_swish_groupnorm,
    "linear-logsumexp-mish": linear_logsumexp_mish,
    "linear-pool-sum": linear_pool_sum,
    "lora-linear": lora_linear,
    "linear-row-sum": linear_row_sum,
    "linear-relu-fp8": linear_relu_fp8,
}
