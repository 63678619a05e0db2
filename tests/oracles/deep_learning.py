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


def attention(arrays: Arrays, sizes: Sizes, scalars: Scalars) -> dict[str, Array]:
    """softmax(scale Q K^T) V, for each head."""
    q, k, v = (arrays[name].astype(np.float64) for name in ("q", "k", "v"))
    return {"out": softmax_rows(scalars["scale"] * (q @ k.transpose(0, 2, 1))) @ v}


def conv2d(arrays: Arrays, sizes: Sizes, scalars: Scalars) -> dict[str, Array]:
    """3x3 cross-correlation of images (n, c, h, w) with weights (k, c, 3, 3), zeros around the images."""
    x, weights = (arrays[name].astype(np.float64) for name in ("in", "weights"))
    windows = np.lib.stride_tricks.sliding_window_view(around(x), (3, 3), axis=(2, 3))
    return {"out": np.einsum("nchwij,kcij->nkhw", windows, weights)}


def depthwise(arrays: Arrays, sizes: Sizes, scalars: Scalars) -> dict[str, Array]:
    """3x3 cross-correlation of each channel with its own weights, zeros around the images."""
    x, weights = (arrays[name].astype(np.float64) for name in ("in", "weights"))
    windows = np.lib.stride_tricks.sliding_window_view(around(x), (3, 3), axis=(2, 3))
    return {"out": np.einsum("nchwij,cij->nchw", windows, weights)}


def around(images: Array) -> Array:
    """One ring of zeros around the last two axes."""
    return np.pad(images, ((0, 0), (0, 0), (1, 1), (1, 1)))


def average_pool(arrays: Arrays, sizes: Sizes, scalars: Scalars) -> dict[str, Array]:
    """The mean of each plane."""
    return {"out": arrays["in"].astype(np.float64).mean(axis=1)}


def embedding_bag(arrays: Arrays, sizes: Sizes, scalars: Scalars) -> dict[str, Array]:
    """The sum of the table's rows that each bag names."""
    offsets, table = arrays["offsets"], arrays["table"].astype(np.float64)
    out = np.zeros((sizes["bags"], sizes["dim"]))
    np.add.at(out, np.repeat(np.arange(sizes["bags"]), np.diff(offsets)), table[arrays["indices"]])
    return {"out": out}


def rope(arrays: Arrays, sizes: Sizes, scalars: Scalars) -> dict[str, Array]:
    """Each head's two halves turned by the token's angles."""
    first, second = np.split(arrays["q"].astype(np.float64), 2, axis=-1)
    cos, sin = (arrays[name].astype(np.float64)[:, None, :] for name in ("cos", "sin"))
    return {"q": np.concatenate([first * cos - second * sin, second * cos + first * sin], axis=-1)}


def batchnorm(arrays: Arrays, sizes: Sizes, scalars: Scalars) -> dict[str, Array]:
    """Each channel of (n, c, space) to mean 0 and variance 1, then weight and bias; and both statistics."""
    x, weight, bias = (arrays[name].astype(np.float64) for name in ("in", "weight", "bias"))
    mean, variance = x.mean(axis=(0, 2)), x.var(axis=(0, 2))
    scale = weight / np.sqrt(variance + scalars["eps"])
    out = (x - mean[:, None]) * scale[:, None] + bias[:, None]
    return {"out": out, "mean": mean, "variance": variance}


def topk(arrays: Arrays, sizes: Sizes, scalars: Scalars) -> dict[str, Array]:
    """The eight largest of each row in descending order, equal ones by ascending place."""
    order = np.argsort(-arrays["in"].astype(np.float64), axis=1, kind="stable")[:, :8]
    return {"values": np.take_along_axis(arrays["in"], order, axis=1), "places": order}


def moments(arrays: Arrays, scalars: Scalars) -> tuple[Array, Array]:
    """Running means of the gradient and of its square."""
    g, m, v = (arrays[name].astype(np.float64) for name in ("gradient", "m", "v"))
    m = scalars["beta1"] * m + (1.0 - scalars["beta1"]) * g
    return m, scalars["beta2"] * v + (1.0 - scalars["beta2"]) * g * g


def adamw(arrays: Arrays, scalars: Scalars, rate: Array | float, decay: Array | float) -> dict[str, Array]:
    """Both moments, and weights less decay and less step; `first` and `second` correct the moments' bias."""
    m, v = moments(arrays, scalars)
    step = (m / scalars["first"]) / (np.sqrt(v / scalars["second"]) + scalars["eps"])
    weights = arrays["weights"].astype(np.float64) * (1.0 - rate * decay) - rate * step
    return {"m": m, "v": v, "weights": weights}


def adam(arrays: Arrays, sizes: Sizes, scalars: Scalars) -> dict[str, Array]:
    """All weights with one rate and one decay."""
    return adamw(arrays, scalars, scalars["rate"], scalars["shrink"])


def bias_gradient(arrays: Arrays, sizes: Sizes, scalars: Scalars) -> dict[str, Array]:
    """The sum of each column."""
    return {"bias": arrays["gradient"].astype(np.float64).sum(axis=0)}


def decode_attention(arrays: Arrays, sizes: Sizes, scalars: Scalars) -> dict[str, Array]:
    """softmax(scale q K^T) V for the one query of each head."""
    whole = attention({**arrays, "q": arrays["q"][:, None, :]}, sizes, scalars)
    return {"out": whole["out"][:, 0, :]}


def linear_gelu(arrays: Arrays, sizes: Sizes, scalars: Scalars) -> dict[str, Array]:
    """GELU of X W^T + bias, in its tanh form."""
    x = arrays["x"].astype(np.float64) @ arrays["w"].astype(np.float64).T + arrays["bias"].astype(np.float64)
    return {"y": 0.5 * x * (1.0 + np.tanh(np.sqrt(2.0 / np.pi) * (x + 0.044715 * x**3)))}


ORACLES = {
    "linear-gelu": linear_gelu,
    "softmax": softmax,
    "layernorm": layernorm,
    "residual-rmsnorm": residual_rmsnorm,
    "bias-gelu": bias_gelu,
    "cross-entropy": cross_entropy,
    "attention": attention,
    "attention-half": attention,
    "conv2d-3x3": conv2d,
    "depthwise-3x3": depthwise,
    "average-pool": average_pool,
    "embedding-bag": embedding_bag,
    "rope": rope,
    "batchnorm": batchnorm,
    "topk": topk,
    "adam": adam,
    "bias-gradient": bias_gradient,
    "decode-attention": decode_attention,
}
