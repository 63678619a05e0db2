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


def batched_tridiagonal(arrays: Arrays, sizes: Sizes, scalars: Scalars) -> dict[str, Array]:
    """The solution of each system; the first of `lower` and the last of `upper` are not used."""
    a, b, c, d = (arrays[name].astype(np.float64) for name in ("lower", "diagonal", "upper", "right"))
    rows = np.arange(sizes["n"])
    whole = np.zeros((*b.shape, sizes["n"]))
    whole[:, rows, rows] = b
    whole[:, rows[1:], rows[:-1]] = a[:, 1:]
    whole[:, rows[:-1], rows[1:]] = c[:, :-1]
    return {"x": np.linalg.solve(whole, d[..., None])[..., 0]}


def batched_solve(arrays: Arrays, sizes: Sizes, scalars: Scalars) -> dict[str, Array]:
    """The solution of each system."""
    right = arrays["right"].astype(np.float64)[..., None]
    return {"x": np.linalg.solve(arrays["matrices"].astype(np.float64), right)[..., 0]}


def batched_qr(arrays: Arrays, sizes: Sizes, scalars: Scalars) -> dict[str, Array]:
    """R above the reflections' vectors, and the reflections' factors, as LAPACK's geqrf gives them."""
    made = [np.linalg.qr(matrix.astype(np.float64), mode="raw") for matrix in arrays["matrices"]]
    return {"matrices": np.stack([h.T for h, _ in made]), "taus": np.stack([tau for _, tau in made])}


def batched_eigenvalues(arrays: Arrays, sizes: Sizes, scalars: Scalars) -> dict[str, Array]:
    """The eigenvalues of each matrix, ascending."""
    return {"values": np.linalg.eigvalsh(arrays["matrices"].astype(np.float64))}


def trsm(arrays: Arrays, sizes: Sizes, scalars: Scalars) -> dict[str, Array]:
    """X of L X = B, L being the lower triangle of what is given."""
    return {"b": np.linalg.solve(np.tril(arrays["l"].astype(np.float64)), arrays["b"].astype(np.float64))}


def lu(arrays: Arrays, sizes: Sizes, scalars: Scalars) -> dict[str, Array]:
    """U on and above the diagonal, L below it, without pivoting."""
    a = arrays["a"].astype(np.float64)
    for k in range(sizes["n"] - 1):
        a[k + 1 :, k] /= a[k, k]
        a[k + 1 :, k + 1 :] -= np.outer(a[k + 1 :, k], a[k, k + 1 :])
    return {"a": a}


def syrk(arrays: Arrays, sizes: Sizes, scalars: Scalars) -> dict[str, Array]:
    """A A^T."""
    a = arrays["a"].astype(np.float64)
    return {"c": a @ a.T}


def markov_steps(arrays: Arrays, sizes: Sizes, scalars: Scalars) -> dict[str, Array]:
    """p P^steps for each chain."""
    states, chances = arrays["states"].astype(np.float64), arrays["chances"].astype(np.float64)
    for _ in range(sizes["steps"]):
        states = np.einsum("bi,bij->bj", states, chances)
    return {"states": states}


def matvec_int8(arrays: Arrays, sizes: Sizes, scalars: Scalars) -> dict[str, Array]:
    """y = A x."""
    return {"y": arrays["matrix"].astype(np.int64) @ arrays["x"].astype(np.int64)}


def batched_inverse(arrays: Arrays, sizes: Sizes, scalars: Scalars) -> dict[str, Array]:
    """The inverse of each matrix."""
    return {"inverses": np.linalg.inv(arrays["matrices"].astype(np.float64))}


def pairwise_distance(arrays: Arrays, sizes: Sizes, scalars: Scalars) -> dict[str, Array]:
    """The squared distance of each row of x to each row of y."""
    ways = arrays["x"].astype(np.float64)[:, None] - arrays["y"].astype(np.float64)[None]
    return {"out": (ways**2).sum(axis=2)}


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
    "batched-tridiagonal": batched_tridiagonal,
    "batched-solve": batched_solve,
    "batched-qr": batched_qr,
    "batched-eigenvalues": batched_eigenvalues,
    "trsm": trsm,
    "lu": lu,
    "syrk-half": syrk,
    "markov-steps": markov_steps,
    "matvec-int8": matvec_int8,
    "batched-inverse": batched_inverse,
    "pairwise-distance-half": pairwise_distance,
    "batched-gemm-half": sgemm,
}
