"""References of the normalisation pairs: forward, backward, with quantised outputs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from kcurate.problem.dtypes import numpy_dtype

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


def log_softmax(arrays: Arrays, sizes: Sizes, scalars: Scalars) -> dict[str, Array]:
    """Of each row."""
    (x,) = doubles(arrays, "in")
    shifted = x - x.max(axis=1, keepdims=True)
    return {"out": shifted - np.log(np.exp(shifted).sum(axis=1, keepdims=True))}


def normalised(x: Array, eps: float) -> Array:
    """Mean 0 and variance 1 along the last axis."""
    centred = x - x.mean(axis=-1, keepdims=True)
    return np.asarray(centred / np.sqrt((centred**2).mean(axis=-1, keepdims=True) + eps))


def groupnorm(arrays: Arrays, sizes: Sizes, scalars: Scalars) -> dict[str, Array]:
    """Each image's groups of channels to mean 0 and variance 1, then weight and bias by channel."""
    x, weight, bias = doubles(arrays, "in weight bias")
    normal = normalised(x.reshape(*x.shape[:2], -1), scalars["eps"]).reshape(x.shape)
    return {"out": normal * weight[:, :, None] + bias[:, :, None]}


def instance_norm(arrays: Arrays, sizes: Sizes, scalars: Scalars) -> dict[str, Array]:
    """Each image's channels to mean 0 and variance 1, weight and bias by channel, leaky ReLU."""
    x, weight, bias = doubles(arrays, "in weight bias")
    y = normalised(x, scalars["eps"]) * weight[:, None] + bias[:, None]
    return {"out": np.where(y > 0, y, scalars["slope"] * y)}


def l2_normalize(arrays: Arrays, sizes: Sizes, scalars: Scalars) -> dict[str, Array]:
    """Each row over its Euclidean norm."""
    (x,) = doubles(arrays, "x")
    return {"out": x / np.maximum(np.sqrt((x * x).sum(axis=1, keepdims=True)), scalars["eps"])}


def rmsnorm_fp8(arrays: Arrays, sizes: Sizes, scalars: Scalars) -> dict[str, Array]:
    """x / rms(x) * weight of each row, in units of a 448th of the row's largest magnitude."""
    x, weight = doubles(arrays, "x weight")
    y = x / np.sqrt((x * x).mean(axis=1, keepdims=True) + scalars["eps"]) * weight
    scale = np.abs(y).max(axis=1) / 448.0
    return {"out": (y / scale[:, None]).astype(numpy_dtype("float8_e4m3")), "scale": scale}


def quantize_int8(arrays: Arrays, sizes: Sizes, scalars: Scalars) -> dict[str, Array]:
    """Each row in units of a 127th of its largest magnitude; the rule says single precision."""
    x = arrays["x"].astype(np.float32)
    largest = np.abs(x).max(axis=1, keepdims=True)
    by = np.float32(127.0) / np.maximum(largest, np.float32(1e-10))
    return {"out": np.rint(x * by).astype(np.int8), "scale": (largest / np.float32(127.0))[:, 0]}


def residual_layernorm_fp8(arrays: Arrays, sizes: Sizes, scalars: Scalars) -> dict[str, Array]:
    """The sum with the residual, and that normalised by row, over the given scale."""
    x, residual, weight, bias = doubles(arrays, "x residual weight bias")
    whole = (x + residual).astype(np.float16).astype(np.float64)
    y = normalised(whole, scalars["eps"]) * weight + bias
    return {"residual": whole, "out": (y / scalars["scale"]).astype(numpy_dtype("float8_e4m3"))}


def silu_mul_fp8(arrays: Arrays, sizes: Sizes, scalars: Scalars) -> dict[str, Array]:
    """silu(gate) * up, in units of a 448th of the largest magnitude of each 128 in a row."""
    gate, up = np.split(arrays["x"].astype(np.float64), 2, axis=1)
    y = (gate / (1.0 + np.exp(-gate)) * up).reshape(sizes["tokens"], sizes["groups"], 128)
    scale = np.abs(y).max(axis=2) / 448.0
    out = (y / scale[:, :, None]).astype(numpy_dtype("float8_e4m3"))
    return {"out": out.reshape(sizes["tokens"], -1), "scale": scale}


def dequantize_int4(arrays: Arrays, sizes: Sizes, scalars: Scalars) -> dict[str, Array]:
    """(code - zero) * scale of each 128 codes; the low half of a byte comes first."""
    packed = arrays["packed"].astype(np.int64)
    codes = np.stack([packed % 16, packed // 16], axis=2).reshape(sizes["rows"], sizes["groups"], 128)
    zeros, scales = doubles(arrays, "zeros scales")
    return {"out": ((codes - zeros[:, :, None]) * scales[:, :, None]).reshape(sizes["rows"], -1)}


def causal_softmax(arrays: Arrays, sizes: Sizes, scalars: Scalars) -> dict[str, Array]:
    """The softmax of each row up to the diagonal, scaled; zero right of it."""
    (x,) = doubles(arrays, "in")
    masked = np.where(np.tri(sizes["n"], dtype=bool), scalars["scale"] * x, -np.inf)
    powers = np.exp(masked - masked.max(axis=2, keepdims=True))
    return {"out": powers / powers.sum(axis=2, keepdims=True)}


def embedding_layernorm(arrays: Arrays, sizes: Sizes, scalars: Scalars) -> dict[str, Array]:
    """Word plus position, normalised by row, with weight and bias."""
    table, positions, weight, bias = doubles(arrays, "table positions weight bias")
    x = table[arrays["tokens"]] + np.tile(positions, (sizes["batch"], 1))
    return {"out": normalised(x, scalars["eps"]) * weight + bias}


ORACLES = {
    "layernorm-backward": layernorm_backward,
    "rmsnorm-backward": rmsnorm_backward,
    "softmax-backward": softmax_backward,
    "log-softmax": log_softmax,
    "groupnorm": groupnorm,
    "instance-norm": instance_norm,
    "l2-normalize": l2_normalize,
    "rmsnorm-fp8": rmsnorm_fp8,
    "quantize-int8-tokens": quantize_int8,
    "residual-layernorm-fp8": residual_layernorm_fp8,
    "silu-mul-fp8-groups": silu_mul_fp8,
    "dequantize-int4": dequantize_int4,
    "causal-softmax": causal_softmax,
    "embedding-layernorm": embedding_layernorm,
}
