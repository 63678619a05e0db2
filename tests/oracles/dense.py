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


def sgemm(arrays: Arrays, sizes: Sizes, scalars: Scalars) -> dict[str, Array]:
    """C = A B, all stored by rows; also for many of them at once."""
    return {"c": arrays["a"].astype(np.float64) @ arrays["b"].astype(np.float64)}


def linear(arrays: Arrays, sizes: Sizes, scalars: Scalars) -> dict[str, Array]:
    """C = A B^T, all stored by rows; times the scale, where there is one."""
    product = arrays["a"].astype(np.float64) @ arrays["b"].astype(np.float64).T
    return {"c": scalars.get("scale", 1.0) * product}


def transpose(arrays: Arrays, sizes: Sizes, scalars: Scalars) -> dict[str, Array]:
    """The rows as columns."""
    return {"out": arrays["in"].T.copy()}


def gemv(arrays: Arrays, sizes: Sizes, scalars: Scalars) -> dict[str, Array]:
    """y = alpha A x + beta y."""
    product = arrays["a"].astype(np.float64) @ arrays["x"].astype(np.float64)
    return {"y": scalars["alpha"] * product + scalars["beta"] * arrays["y"].astype(np.float64)}


def ger(arrays: Arrays, sizes: Sizes, scalars: Scalars) -> dict[str, Array]:
    """A + alpha x y^T."""
    x, y = arrays["x"].astype(np.float64), arrays["y"].astype(np.float64)
    return {"a": arrays["a"].astype(np.float64) + scalars["alpha"] * np.outer(x, y)}


def gram(arrays: Arrays, sizes: Sizes, scalars: Scalars) -> dict[str, Array]:
    """A^T A."""
    a = arrays["a"].astype(np.float64)
    return {"g": a.T @ a}


def batched_cholesky(arrays: Arrays, sizes: Sizes, scalars: Scalars) -> dict[str, Array]:
    """The lower factor of each matrix, whose lower half is given, with the shift on its diagonal."""
    lower = np.tril(arrays["a"].astype(np.float64))
    whole = lower + np.tril(lower, -1).transpose(0, 2, 1) + scalars["shift"] * np.eye(lower.shape[-1])
    return {"l": np.linalg.cholesky(whole)}


ORACLES = {
    "gemm": gemm,
    "sgemm": sgemm,
    "hgemm": sgemm,
    "linear-bf16": linear,
    "linear-fp8": linear,
    "transpose": transpose,
    "gemv": gemv,
    "ger": ger,
    "gram": gram,
    "batched-gemm": sgemm,
    "batched-cholesky": batched_cholesky,
}
