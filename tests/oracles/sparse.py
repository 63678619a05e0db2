"""References of the sparse linear algebra pairs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]
Arrays = Mapping[str, Array]
Sizes = Mapping[str, int]
Scalars = Mapping[str, float]


def dense(offsets: Array, columns: Array, values: Array, width: int) -> Array:
    """Compressed rows as a dense matrix `(rows, width)` float64; entries of one place add up."""
    matrix = np.zeros((offsets.size - 1, width))
    np.add.at(matrix, (row_of(offsets), columns), values.astype(np.float64))
    return matrix


def row_of(offsets: Array) -> Array:
    """The row of each entry."""
    return np.repeat(np.arange(offsets.size - 1), np.diff(offsets))


def spmv_csr(arrays: Arrays, sizes: Sizes, scalars: Scalars) -> dict[str, Array]:
    """y = A x."""
    matrix = dense(arrays["offsets"], arrays["columns"], arrays["values"], sizes["rows"])
    return {"y": matrix @ arrays["x"].astype(np.float64)}


def spmm_csr(arrays: Arrays, sizes: Sizes, scalars: Scalars) -> dict[str, Array]:
    """C = A B."""
    matrix = dense(arrays["offsets"], arrays["columns"], arrays["values"], sizes["rows"])
    return {"c": matrix @ arrays["b"].astype(np.float64)}


def spmv_coo(arrays: Arrays, sizes: Sizes, scalars: Scalars) -> dict[str, Array]:
    """y = A x, with the row and the column of each entry."""
    y = np.zeros(sizes["rows"])
    terms = arrays["values"].astype(np.float64) * arrays["x"].astype(np.float64)[arrays["col"]]
    np.add.at(y, arrays["row"], terms)
    return {"y": y}


def spmv_bsr(arrays: Arrays, sizes: Sizes, scalars: Scalars) -> dict[str, Array]:
    """y = A x, with A in compressed rows of 4x4 blocks."""
    x = arrays["x"].astype(np.float64).reshape(-1, 4)
    y = np.zeros_like(x)
    parts = np.einsum("brc,bc->br", arrays["values"].astype(np.float64), x[arrays["columns"]])
    np.add.at(y, row_of(arrays["offsets"]), parts)
    return {"y": y.reshape(-1)}


def sddmm(arrays: Arrays, sizes: Sizes, scalars: Scalars) -> dict[str, Array]:
    """Each entry times the inner product of its row of A with its column's row of B."""
    a = arrays["a"].astype(np.float64)[row_of(arrays["offsets"])]
    b = arrays["b"].astype(np.float64)[arrays["columns"]]
    return {"out": arrays["values"].astype(np.float64) * (a * b).sum(axis=1)}


def jacobi_csr(arrays: Arrays, sizes: Sizes, scalars: Scalars) -> dict[str, Array]:
    """Damped Jacobi sweeps x + omega (b - A x) / d."""
    matrix = dense(arrays["offsets"], arrays["columns"], arrays["values"], sizes["rows"])
    x, b, d = (arrays[name].astype(np.float64) for name in ("x", "b", "d"))
    for _ in range(sizes["sweeps"]):
        x = x + scalars["omega"] * (b - matrix @ x) / d
    return {"x": x}


ORACLES = {
    "spmv-csr": spmv_csr,
    "spmm-csr": spmm_csr,
    "spmv-coo": spmv_coo,
    "spmv-bsr": spmv_bsr,
    "sddmm": sddmm,
    "jacobi-csr": jacobi_csr,
}
