"""References of the particle and Monte Carlo pairs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]
Arrays = Mapping[str, Array]
Sizes = Mapping[str, int]
Scalars = Mapping[str, float]


def nbody(arrays: Arrays, sizes: Sizes, scalars: Scalars) -> dict[str, Array]:
    """Sum over j of m_j d / (|d|^2 + softening^2)^(3/2), with d from i to j."""
    bodies = arrays["bodies"].astype(np.float64)
    offset = bodies[None, :, :3] - bodies[:, None, :3]
    distance2 = (offset**2).sum(axis=2) + scalars["softening"] ** 2
    return {"acceleration": np.einsum("ij,ijd->id", bodies[None, :, 3] / distance2**1.5, offset)}


def boris_push(arrays: Arrays, sizes: Sizes, scalars: Scalars) -> dict[str, Array]:
    """Half a kick, a rotation about the magnetic field, half a kick, a drift; the last row is |v|^2 / 2."""
    state = arrays["particles"].astype(np.float64)
    electric = np.array([scalars["ex"], scalars["ey"], scalars["ez"]])[:, None]
    magnetic = np.array([scalars["bx"], scalars["by"], scalars["bz"]])[:, None]
    half = 0.5 * scalars["dt"] * state[6]
    t = half * magnetic
    minus = state[3:6] + half * electric
    turned = minus + np.cross(minus, t, axis=0)
    plus = minus + np.cross(turned, 2 * t / (1 + (t**2).sum(axis=0)), axis=0)
    velocity = plus + half * electric
    position = state[0:3] + scalars["dt"] * velocity
    energy = 0.5 * (velocity**2).sum(axis=0)
    return {"particles": np.vstack([position, velocity, state[6], energy])}


def _philox2x32(low: Array, high: Array, key: Array) -> tuple[Array, Array]:
    """Ten rounds (Salmon and others, SC 2011) on uint64 arrays that hold 32-bit words."""
    mask = np.uint64(0xFFFFFFFF)
    for _ in range(10):
        product = np.uint64(0xD256D193) * low
        low, high = (product >> np.uint64(32)) ^ key ^ high, product & mask
        key = (key + np.uint64(0x9E3779B9)) & mask
    return low, high


def asian_option(arrays: Arrays, sizes: Sizes, scalars: Scalars) -> dict[str, Array]:
    """The discounted mean of max(mean(S) - K, 0) over geometric Brownian paths of one year."""
    paths, steps = sizes["paths"], sizes["steps"]
    strike, rate, sigma = (arrays[name].astype(np.float64) for name in ("strike", "rate", "volatility"))
    seed, path, pair = np.meshgrid(
        arrays["seed"].astype(np.uint64),
        np.arange(paths, dtype=np.uint64),
        np.arange((steps + 1) // 2, dtype=np.uint64),
        indexing="ij",
    )
    first, second = (word.astype(np.float64) / 2**32 for word in _philox2x32(path, pair, seed))
    length = np.sqrt(-2 * np.log(first + 0.5**33))
    both = np.stack([length * np.cos(2 * np.pi * second), length * np.sin(2 * np.pi * second)], axis=-1)
    normals = both.reshape(strike.size, paths, -1)[..., :steps]
    drift = ((rate - 0.5 * sigma**2) / steps)[:, None, None]
    logs = np.cumsum(drift + sigma[:, None, None] / np.sqrt(steps) * normals, axis=2)
    mean = scalars["spot"] * np.exp(logs).mean(axis=2)
    return {"price": np.exp(-rate) * np.maximum(mean - strike[:, None], 0).mean(axis=1)}


def kmeans_assign(arrays: Arrays, sizes: Sizes, scalars: Scalars) -> dict[str, Array]:
    """The nearest centroid, the first of equals."""
    points, centroids = arrays["points"].astype(np.int64), arrays["centroids"].astype(np.int64)
    distance = ((points[:, None] - centroids[None]) ** 2).sum(axis=2)
    return {"labels": distance.argmin(axis=1)}


def distance_histogram(arrays: Arrays, sizes: Sizes, scalars: Scalars) -> dict[str, Array]:
    """Counts of |p_i - p_j|^2 / 2^shift over all pairs i < j."""
    points = arrays["points"].astype(np.int64)
    i, j = np.triu_indices(len(points), 1)
    distance = ((points[i] - points[j]) ** 2).sum(axis=1)
    return {"counts": np.bincount(distance >> sizes["shift"], minlength=256)}


def ising_checkerboard(arrays: Arrays, sizes: Sizes, scalars: Scalars) -> dict[str, Array]:
    """Sites with even x + y first; a site turns if its random word is under the chance of its field."""
    up = arrays["spins"].astype(np.int64)
    y, x = np.indices(up.shape)
    site = (y * up.shape[1] + x).astype(np.uint64)
    mask = np.uint64(0xFFFFFFFF)
    for half in range(2 * sizes["sweeps"]):
        salt = (half * 0x9E3779B9 + int(arrays["seed"][0])) % 2**32
        word = site ^ np.uint64(salt)
        for shift, factor in ((16, 0x7FEB352D), (15, 0x846CA68B)):
            word ^= word >> np.uint64(shift)
            word = (word * np.uint64(factor)) & mask
        word ^= word >> np.uint64(16)
        spin = np.pad(2 * up - 1, 1)
        field = spin[1:-1, 1:-1] * (spin[:-2, 1:-1] + spin[2:, 1:-1] + spin[1:-1, :-2] + spin[1:-1, 2:])
        turns = ((x + y) % 2 == half % 2) & (word < arrays["accept"][field + 4])
        up = np.where(turns, 1 - up, up)
    return {"spins": up}


def cell_list_forces(arrays: Arrays, sizes: Sizes, scalars: Scalars) -> dict[str, Array]:
    """For each particle the sum over those nearer than 1 of w (1 - r^2)^2 times the way from there."""
    side, particles = sizes["side"], arrays["particles"].astype(np.float64)
    cells = np.repeat(np.arange(side**3), np.diff(arrays["offsets"]))
    corners = np.stack([cells % side, cells // side % side, cells // side**2], axis=1)
    places = particles[:, :3] + corners
    ways = places[:, None] - places[None]
    rest = (1 - (ways**2).sum(axis=2)).clip(0)
    rest[np.abs(corners[:, None] - corners[None]).max(axis=2) > 1] = 0
    return {"out": ((particles[:, 3] * rest**2)[..., None] * ways).sum(axis=1)}


def kernel_density(arrays: Arrays, sizes: Sizes, scalars: Scalars) -> dict[str, Array]:
    """The mean of a Gaussian of the distance to each sample."""
    ways = arrays["queries"].astype(np.float64)[:, None] - arrays["samples"].astype(np.float64)[None]
    return {"out": np.exp(-(ways**2).sum(axis=2) / (2 * scalars["width"] ** 2)).mean(axis=1)}


def nearest_int8(arrays: Arrays, sizes: Sizes, scalars: Scalars) -> dict[str, Array]:
    """The first of the nearest points to each query, and its squared distance."""
    q, p = arrays["queries"].astype(np.int64), arrays["points"].astype(np.int64)
    squares = (q**2).sum(axis=1)[:, None] + (p**2).sum(axis=1)[None] - 2 * q @ p.T
    return {"indices": squares.argmin(axis=1), "distances": squares.min(axis=1)}


def philox_uniform(arrays: Arrays, sizes: Sizes, scalars: Scalars) -> dict[str, Array]:
    """Philox 4x32-10 of the counters 0, 1, ...; 24 bits of each word as a fraction."""
    mask = np.uint64(0xFFFFFFFF)
    x = np.arange((sizes["n"] + 3) // 4, dtype=np.uint64)
    y, z, w = np.zeros((3, x.size), np.uint64)
    low, high = int(scalars["key_low"]), int(scalars["key_high"])
    for _ in range(10):
        a, b = np.uint64(0xD2511F53) * x, np.uint64(0xCD9E8D57) * z
        first, third = (b >> np.uint64(32)) ^ y ^ np.uint64(low), (a >> np.uint64(32)) ^ w ^ np.uint64(high)
        x, y, z, w = first, b & mask, third, a & mask
        low, high = (low + 0x9E3779B9) % 2**32, (high + 0xBB67AE85) % 2**32
    words = np.stack([x, y, z, w], axis=1).ravel()[: sizes["n"]]
    return {"out": (words >> np.uint64(8)).astype(np.float64) / 2**24}


def sobol(arrays: Arrays, sizes: Sizes, scalars: Scalars) -> dict[str, Array]:
    """Number i is the exclusive or of the directions at the bits of i's Gray code."""
    i = np.arange(sizes["n"])
    gray = i ^ (i >> 1)
    out = np.zeros((sizes["dims"], sizes["n"]), np.int64)
    for bit in range(32):
        out[:, gray >> bit & 1 == 1] ^= arrays["directions"][:, bit : bit + 1].astype(np.int64)
    return {"out": out}


ORACLES = {
    "nbody": nbody,
    "boris-push": boris_push,
    "asian-option": asian_option,
    "kmeans-assign": kmeans_assign,
    "distance-histogram": distance_histogram,
    "ising-checkerboard": ising_checkerboard,
    "cell-list-forces": cell_list_forces,
    "kernel-density": kernel_density,
    "nearest-int8": nearest_int8,
    "philox-uniform": philox_uniform,
    "sobol": sobol,
}
