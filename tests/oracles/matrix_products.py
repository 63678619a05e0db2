"""References of matrix products in narrow types, and of what is fused to them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from tests.oracles.dense import sgemm

Array = npt.NDArray[Any]
Arrays = Mapping[str, Array]
Sizes = Mapping[str, int]
Scalars = Mapping[str, float]


def weight_gradient(arrays: Arrays, sizes: Sizes, scalars: Scalars) -> dict[str, Array]:
    """C = A^T B for each of many matrices."""
    return {"c": arrays["a"].astype(np.float64).transpose(0, 2, 1) @ arrays["b"].astype(np.float64)}


def linear_int8(arrays: Arrays, sizes: Sizes, scalars: Scalars) -> dict[str, Array]:
    """A B^T, an exact sum of integers, times the scales of its row and its column."""
    product = arrays["a"].astype(np.int64) @ arrays["b"].astype(np.int64).T
    rows, cols = arrays["row_scale"].astype(np.float64), arrays["col_scale"].astype(np.float64)
    return {"c": product * rows[:, None] * cols}


def linear_fp8_blocks(arrays: Arrays, sizes: Sizes, scalars: Scalars) -> dict[str, Array]:
    """A B^T, where each block of 1 x 128 of A and of 128 x 128 of B has a scale."""
    n, k = sizes["n"], sizes["k"]
    by_row = np.repeat(arrays["a_scale"].astype(np.float64), 128, axis=1)[:, :k]
    by_block = np.repeat(np.repeat(arrays["b_scale"].astype(np.float64), 128, axis=0), 128, axis=1)[:n, :k]
    return {"c": (arrays["a"].astype(np.float64) * by_row) @ (arrays["b"].astype(np.float64) * by_block).T}


def product(arrays: Arrays, left: str, right: str) -> Array:
    """Left times right transposed."""
    return np.asarray(arrays[left].astype(np.float64) @ arrays[right].astype(np.float64).T)


def linear_gelu_fp8(arrays: Arrays, sizes: Sizes, scalars: Scalars) -> dict[str, Array]:
    """GELU of scaled A B^T + bias, in its tanh form, scaled again, at most the largest e4m3 number."""
    x = scalars["in_scale"] * product(arrays, "a", "b") + arrays["bias"].astype(np.float64)
    gelu = 0.5 * x * (1.0 + np.tanh(np.sqrt(2.0 / np.pi) * (x + 0.044715 * x**3)))
    return {"c": np.clip(scalars["out_scale"] * gelu, -448.0, 448.0)}


def linear_swiglu(arrays: Arrays, sizes: Sizes, scalars: Scalars) -> dict[str, Array]:
    """silu(A G^T) times A U^T."""
    gate = product(arrays, "a", "gate")
    return {"c": gate / (1.0 + np.exp(-gate)) * product(arrays, "a", "up")}


def linear_residual(arrays: Arrays, sizes: Sizes, scalars: Scalars) -> dict[str, Array]:
    """A B^T + bias + residual."""
    more = arrays["bias"].astype(np.float64) + arrays["residual"].astype(np.float64)
    return {"c": product(arrays, "a", "b") + more}


def linear(arrays: Arrays, sizes: Sizes, scalars: Scalars) -> dict[str, Array]:
    """C = A B^T, all stored by rows."""
    return {"c": product(arrays, "a", "b")}


def grouped_gemm(arrays: Arrays, sizes: Sizes, scalars: Scalars) -> dict[str, Array]:
    """Each token's row times the transposed weights of its expert; tokens lie in order of experts."""
    expert = np.repeat(np.arange(sizes["experts"]), np.diff(arrays["offsets"]))
    return {
        "c": np.einsum("tk,tnk->tn", arrays["a"].astype(np.float64), arrays["b"].astype(np.float64)[expert])
    }


def decode_linear(arrays: Arrays, sizes: Sizes, scalars: Scalars) -> dict[str, Array]:
    """y = x W^T; times the scale of each row of W, where it has one."""
    scale = arrays["scale"].astype(np.float64) if "scale" in arrays else 1.0
    return {"y": product(arrays, "x", "w") * scale}


def gemv_int8(arrays: Arrays, sizes: Sizes, scalars: Scalars) -> dict[str, Array]:
    """W x, an exact sum of integers, times both scales."""
    whole = arrays["w"].astype(np.int64) @ arrays["x"].astype(np.int64)
    return {"y": whole * scalars["x_scale"] * arrays["row_scale"].astype(np.float64)}


def four_bit(codes: Array, scales: Array) -> Array:
    """Weights of 4 bits, the first in the low half of a byte, less 8, times the scale of their 128."""
    values = np.stack([codes & 15, codes >> 4], axis=-1).reshape(codes.shape[0], -1).astype(np.float64)
    return (values - 8.0) * np.repeat(scales.astype(np.float64), 128, axis=1)


def decode_linear_int4(arrays: Arrays, sizes: Sizes, scalars: Scalars) -> dict[str, Array]:
    """y = x W^T with W of 4 bits."""
    return {"y": arrays["x"].astype(np.float64) @ four_bit(arrays["w"], arrays["scales"]).T}


def linear_int4(arrays: Arrays, sizes: Sizes, scalars: Scalars) -> dict[str, Array]:
    """C = A B^T with B of 4 bits."""
    return {"c": arrays["a"].astype(np.float64) @ four_bit(arrays["b"], arrays["scales"]).T}


def linear_cross_entropy(arrays: Arrays, sizes: Sizes, scalars: Scalars) -> dict[str, Array]:
    """-log softmax(A B^T)[label], of each row."""
    logits = product(arrays, "a", "b")
    largest = logits.max(axis=1)
    chosen = logits[np.arange(sizes["m"]), arrays["labels"]]
    return {"loss": np.log(np.exp(logits - largest[:, None]).sum(axis=1)) + largest - chosen}


def moe_swiglu(arrays: Arrays, sizes: Sizes, scalars: Scalars) -> dict[str, Array]:
    """silu(x G^T) times x U^T of the token in each place, with the weights of the place's expert."""
    expert = np.repeat(np.arange(sizes["experts"]), np.diff(arrays["offsets"]))
    x = arrays["a"].astype(np.float64)[arrays["token_of"]]
    gate, up = (
        np.einsum("tk,tnk->tn", x, arrays[name].astype(np.float64)[expert]) for name in ("gate", "up")
    )
    return {"c": gate / (1.0 + np.exp(-gate)) * up}


def gram(arrays: Arrays, sizes: Sizes, scalars: Scalars) -> dict[str, Array]:
    """C = A A^T."""
    return {"c": product(arrays, "a", "a")}


def decode_swiglu(arrays: Arrays, sizes: Sizes, scalars: Scalars) -> dict[str, Array]:
    """silu(x G^T) times x U^T."""
    gate = product(arrays, "x", "gate")
    return {"y": gate / (1.0 + np.exp(-gate)) * product(arrays, "x", "up")}


ORACLES = {
    "matmul-bf16": sgemm,
    "batched-gemm-bf16": weight_gradient,
    "linear-int8": linear_int8,
    "linear-fp8-blocks": linear_fp8_blocks,
    "linear-gelu-fp8": linear_gelu_fp8,
    "linear-swiglu": linear_swiglu,
    "linear-residual": linear_residual,
    "linear-split-k": linear,
    "linear-stream-k": linear,
    "grouped-gemm": grouped_gemm,
    "decode-linear-bf16": decode_linear,
    "decode-linear-fp8": decode_linear,
    "gemv-int8": gemv_int8,
    "decode-linear-int4": decode_linear_int4,
    "linear-int4": linear_int4,
    "linear-cross-entropy": linear_cross_entropy,
    "moe-swiglu": moe_swiglu,
    "gram-bf16": gram,
    "decode-swiglu": decode_swiglu,
}
