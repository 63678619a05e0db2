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


def spmv_ell(arrays: Arrays, sizes: Sizes, scalars: Scalars) -> dict[str, Array]:
    """y = A x, with the leading `lengths` entries of each row."""
    used = np.arange(sizes["width"]) < arrays["lengths"][:, None]
    terms = arrays["values"].astype(np.float64) * arrays["x"].astype(np.float64)[arrays["columns"]]
    return {"y": np.where(used, terms, 0.0).sum(axis=1)}


def csr_transpose(arrays: Arrays, sizes: Sizes, scalars: Scalars) -> dict[str, Array]:
    """The entries by column, then by row."""
    rows, columns = row_of(arrays["offsets"]), arrays["columns"]
    order = np.lexsort((rows, columns))
    counts = np.bincount(columns, minlength=sizes["cols"])
    return {
        "t_offsets": np.concatenate([[0], np.cumsum(counts)]),
        "t_rows": rows[order],
        "t_values": arrays["values"][order].astype(np.float64),
    }


def sptrsv_levels(arrays: Arrays, sizes: Sizes, scalars: Scalars) -> dict[str, Array]:
    """L x = b by forward substitution; a column of -1 is no entry."""
    columns, values = arrays["columns"], arrays["values"].astype(np.float64)
    x = np.zeros(arrays["b"].size)
    for row, right in enumerate(arrays["b"].astype(np.float64)):
        used = columns[row] >= 0
        x[row] = (right - values[row][used] @ x[columns[row][used]]) / float(arrays["diagonal"][row])
    return {"x": x}


def spgemm_masked(arrays: Arrays, sizes: Sizes, scalars: Scalars) -> dict[str, Array]:
    """The entries of A B at the places of the mask."""
    a = dense(arrays["a_offsets"], arrays["a_columns"], arrays["a_values"], sizes["inner"])
    b = dense(arrays["b_offsets"], arrays["b_columns"], arrays["b_values"], sizes["cols"])
    return {"out": (a @ b)[row_of(arrays["mask_offsets"]), arrays["mask_columns"]]}


def spgemm_row_counts(arrays: Arrays, sizes: Sizes, scalars: Scalars) -> dict[str, Array]:
    """The number of places in each row of A B that some product reaches."""
    ones = [np.ones(arrays[f"{side}_columns"].size) for side in "ab"]
    a = dense(arrays["a_offsets"], arrays["a_columns"], ones[0], sizes["inner"])
    b = dense(arrays["b_offsets"], arrays["b_columns"], ones[1], sizes["cols"])
    return {"counts": (a @ b > 0).sum(axis=1)}


def bsr_matmul(arrays: Arrays, sizes: Sizes, scalars: Scalars) -> dict[str, Array]:
    """C = A B, with A in compressed rows of 64x64 blocks."""
    b = arrays["b"].astype(np.float64).reshape(-1, 64, sizes["n"])
    c = np.zeros((sizes["rows"], 64, sizes["n"]))
    np.add.at(c, row_of(arrays["offsets"]), arrays["blocks"].astype(np.float64) @ b[arrays["columns"]])
    return {"c": c.reshape(-1, sizes["n"])}


def band_matvec(arrays: Arrays, sizes: Sizes, scalars: Scalars) -> dict[str, Array]:
    """y = A x, with row i of the band holding columns i - reach to i + reach."""
    padded = np.pad(arrays["x"].astype(np.float64), sizes["reach"])
    windows = np.lib.stride_tricks.sliding_window_view(padded, 2 * sizes["reach"] + 1)
    return {"y": (arrays["band"].astype(np.float64) * windows).sum(axis=1)}


def sddmm_block(arrays: Arrays, sizes: Sizes, scalars: Scalars) -> dict[str, Array]:
    """The 64x64 blocks of A B^T that the pattern has."""
    a, b = (arrays[name].astype(np.float64).reshape(-1, 64, sizes["k"]) for name in "ab")
    return {"out": a[row_of(arrays["offsets"])] @ b[arrays["columns"]].transpose(0, 2, 1)}


ORACLES = {
    "spmv-csr": spmv_csr,
    "spmm-csr": spmm_csr,
    "spmv-coo": spmv_coo,
    "spmv-bsr": spmv_bsr,
    "sddmm": sddmm,
    "jacobi-csr": jacobi_csr,
    "spmv-ell": spmv_ell,
    "csr-transpose": csr_transpose,
    "sptrsv-levels": sptrsv_levels,
    "spgemm-masked": spgemm_masked,
    "spgemm-row-counts": spgemm_row_counts,
    "bsr-matmul-half": bsr_matmul,
    "band-matvec": band_matvec,
    "sddmm-block-half": sddmm_block,
}
