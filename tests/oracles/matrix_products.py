"""References of matrix products in narrow types, and of what is fused to them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]
Arrays = Mapping[str, Array]
Sizes = Mapping[str, int]
Scalars = Mapping[str, float]


def matmul(arrays: Arrays, sizes: Sizes, scalars: Scalars) -> dict[str, Array]:
    """C = A B, all stored by rows."""
    return {"c": arrays["a"].astype(np.float64) @ arrays["b"].astype(np.float64)}


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


ORACLES = {
    "matmul-bf16": matmul,
    "batched-gemm-bf16": weight_gradient,
    "linear-int8": linear_int8,
    "linear-fp8-blocks": linear_fp8_blocks,
    "linear-gelu-fp8": linear_gelu_fp8,
    "linear-swiglu": linear_swiglu,
    "linear-residual": linear_residual,
}
