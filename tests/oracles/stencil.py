"""References of the stencil and partial differential equation pairs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]
Arrays = Mapping[str, Array]
Sizes = Mapping[str, int]
Scalars = Mapping[str, float]


def stencil2d_5pt(arrays: Arrays, sizes: Sizes, scalars: Scalars) -> dict[str, Array]:
    """One sweep inside; the rim is kept."""
    u = arrays["in"].astype(np.float64)
    out = u.copy()
    around = u[:-2, 1:-1] + u[2:, 1:-1] + u[1:-1, :-2] + u[1:-1, 2:]
    out[1:-1, 1:-1] = scalars["centre"] * u[1:-1, 1:-1] + scalars["side"] * around
    return {"out": out}


def heat2d(arrays: Arrays, sizes: Sizes, scalars: Scalars) -> dict[str, Array]:
    """4 `rounds` explicit steps of the heat equation."""
    return {"out": _heat(arrays["in"].astype(np.float64), 4 * sizes["rounds"], scalars["k"])}


def heat2d_many_steps(arrays: Arrays, sizes: Sizes, scalars: Scalars) -> dict[str, Array]:
    """`steps` explicit steps of the heat equation."""
    return {"out": _heat(arrays["in"].astype(np.float64), sizes["steps"], scalars["k"])}


def _heat(u: Array, steps: int, k: float) -> Array:
    """Explicit steps; the rim is kept."""
    for _ in range(steps):
        around = u[:-2, 1:-1] + u[2:, 1:-1] + u[1:-1, :-2] + u[1:-1, 2:]
        new = u.copy()
        new[1:-1, 1:-1] += k * (around - 4.0 * u[1:-1, 1:-1])
        u = new
    return u


def stencil3d_7pt(arrays: Arrays, sizes: Sizes, scalars: Scalars) -> dict[str, Array]:
    """One sweep inside; the rim is kept."""
    u = arrays["in"].astype(np.float64)
    out = u.copy()
    core = (slice(1, -1),) * 3
    around = np.zeros_like(u[core])
    for axis in range(3):
        for low, high in ((0, -2), (2, None)):
            window = list(core)
            window[axis] = slice(low, high)
            around += u[tuple(window)]
    out[core] = scalars["centre"] * u[core] + scalars["side"] * around
    return {"out": out}


def wave3d_r4(arrays: Arrays, sizes: Sizes, scalars: Scalars) -> dict[str, Array]:
    """next = 2 cur - prev + c2 times the eighth-order Laplacian; a rim of four keeps `cur`."""
    prev, cur = arrays["prev"].astype(np.float64), arrays["cur"].astype(np.float64)
    out = cur.copy()
    core = (slice(4, -4),) * 3
    laplacian = 3 * (-205 / 72) * cur[core]
    for r, weight in enumerate((8 / 5, -1 / 5, 8 / 315, -1 / 560), start=1):
        for axis in range(3):
            for start in (4 - r, 4 + r):
                window = list(core)
                window[axis] = slice(start, start + cur.shape[axis] - 8)
                laplacian += weight * cur[tuple(window)]
    out[core] = 2 * cur[core] - prev[core] + scalars["c2"] * laplacian
    return {"next": out}


def gauss_seidel_redblack(arrays: Arrays, sizes: Sizes, scalars: Scalars) -> dict[str, Array]:
    """2 `rounds` sweeps, cells with even x + y first; the rim is kept."""
    u, f = arrays["in"].astype(np.float64), arrays["f"].astype(np.float64)
    y, x = np.indices(u.shape)[:, 1:-1, 1:-1]
    for half in range(4 * sizes["rounds"]):
        around = u[:-2, 1:-1] + u[2:, 1:-1] + u[1:-1, :-2] + u[1:-1, 2:]
        u[1:-1, 1:-1] = np.where((x + y) % 2 == half % 2, 0.25 * (around + f[1:-1, 1:-1]), u[1:-1, 1:-1])
    return {"out": u}


def lbm_d2q9(arrays: Arrays, sizes: Sizes, scalars: Scalars) -> dict[str, Array]:
    """Pull along each direction, then relax towards the second-order equilibrium; periodic."""
    directions = ((0, 0), (1, 0), (0, 1), (-1, 0), (0, -1), (1, 1), (-1, 1), (-1, -1), (1, -1))
    weights = (4 / 9, *(1 / 9,) * 4, *(1 / 36,) * 4)
    f = np.stack(
        [np.roll(p, (cy, cx), (0, 1)) for p, (cx, cy) in zip(arrays["from"], directions, strict=True)]
    ).astype(np.float64)
    rho = f.sum(axis=0)
    ux, uy = (np.tensordot([d[i] for d in directions], f, 1) / rho for i in (0, 1))
    out = np.empty_like(f)
    for q, (cx, cy) in enumerate(directions):
        cu = cx * ux + cy * uy
        equilibrium = weights[q] * rho * (1 + 3 * cu + 4.5 * cu**2 - 1.5 * (ux**2 + uy**2))
        out[q] = f[q] + scalars["omega"] * (equilibrium - f[q])
    return {"to": out}


def life(arrays: Arrays, sizes: Sizes, scalars: Scalars) -> dict[str, Array]:
    """A cell lives with three living neighbours, or with two if it lived; outside all are dead."""
    cells = arrays["cells"].astype(np.int64)
    for _ in range(sizes["steps"]):
        windows = np.lib.stride_tricks.sliding_window_view(np.pad(cells, 1), (3, 3))
        around = windows.sum(axis=(2, 3)) - cells
        cells = ((around == 3) | ((around == 2) & (cells == 1))).astype(np.int64)
    return {"cells": cells}


def conv3d(arrays: Arrays, sizes: Sizes, scalars: Scalars) -> dict[str, Array]:
    """Correlation of all channels with each filter, zeros around."""
    padded = np.pad(arrays["in"].astype(np.float64), ((0, 0), (1, 1), (1, 1), (1, 1)))
    windows = np.lib.stride_tricks.sliding_window_view(padded, (3, 3, 3), axis=(1, 2, 3))
    return {"out": np.einsum("czyxijk,fcijk->fzyx", windows, arrays["weights"].astype(np.float64))}


def heat2d_batch(arrays: Arrays, sizes: Sizes, scalars: Scalars) -> dict[str, Array]:
    """Steps of u + rate * (the neighbours' sum - 4 u); the border stays."""
    u = arrays["plates"].astype(np.float64)
    for _ in range(sizes["steps"]):
        around = u[:, 1:-1, :-2] + u[:, 1:-1, 2:] + u[:, :-2, 1:-1] + u[:, 2:, 1:-1]
        u[:, 1:-1, 1:-1] += scalars["rate"] * (around - 4 * u[:, 1:-1, 1:-1])
    return {"plates": u}


def cg_poisson(arrays: Arrays, sizes: Sizes, scalars: Scalars) -> dict[str, Array]:
    """Iterations of conjugate gradients from zero for 4 u - (the neighbours' sum) = b, zeros around."""
    r = arrays["b"].astype(np.float64)
    x, p, square = np.zeros_like(r), r.copy(), (r**2).sum()
    for _ in range(sizes["iterations"]):
        around = np.pad(p, 1)
        q = 4 * p - around[:-2, 1:-1] - around[2:, 1:-1] - around[1:-1, :-2] - around[1:-1, 2:]
        alpha = square / (p * q).sum()
        x, r = x + alpha * p, r - alpha * q
        before, square = square, (r**2).sum()
        p = r + square / before * p
    return {"x": x}


def stencil3d_27pt(arrays: Arrays, sizes: Sizes, scalars: Scalars) -> dict[str, Array]:
    """A sum of each cell and its 26 neighbours, weighted by how many coordinates differ; the border stays."""
    u = arrays["in"].astype(np.float64)
    weights = [scalars[name] for name in ("centre", "face", "edge", "corner")]
    kernel = np.array([weights[sum(abs(d - 1) for d in at)] for at in np.ndindex(3, 3, 3)]).reshape(3, 3, 3)
    out = u.copy()
    windows = np.lib.stride_tricks.sliding_window_view(u, (3, 3, 3))
    out[1:-1, 1:-1, 1:-1] = np.einsum("zyxijk,ijk->zyx", windows, kernel)
    return {"out": out}


ORACLES = {
    "stencil2d-5pt": stencil2d_5pt,
    "heat2d": heat2d,
    "heat2d-many-steps": heat2d_many_steps,
    "stencil3d-7pt": stencil3d_7pt,
    "wave3d-r4": wave3d_r4,
    "gauss-seidel-redblack": gauss_seidel_redblack,
    "lbm-d2q9": lbm_d2q9,
    "life": life,
    "conv3d": conv3d,
    "heat2d-batch": heat2d_batch,
    "cg-poisson": cg_poisson,
    "stencil3d-27pt": stencil3d_27pt,
}
