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


ORACLES = {
    "stencil2d-5pt": stencil2d_5pt,
    "heat2d": heat2d,
    "heat2d-many-steps": heat2d_many_steps,
    "stencil3d-7pt": stencil3d_7pt,
    "wave3d-r4": wave3d_r4,
    "gauss-seidel-redblack": gauss_seidel_redblack,
    "lbm-d2q9": lbm_d2q9,
}
