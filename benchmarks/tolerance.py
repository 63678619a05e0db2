"""How far honest float32 sums and wrong ones lie from the norm bound of `compare`, up to 2**26 terms.

    python benchmarks/tolerance.py --out FILE.json [--largest 26] [--seeds 3]

One sum of K terms, in NumPy, as a side would take it, against the sum in float64: in one chain (a thread, or
an atomic addition for each term), partial sums of 256 terms added in a chain (an atomic addition for each
block), 4096 chains that a tree joins, a tree, Kahan. Wrong: a quarter of the data times four, one term in a
hundred left out, inputs in bfloat16 or tf32, partial sums in bfloat16. Inputs are nominal or structured (of
few nonzero terms, as the judge makes them). Prints each error as a share of the norm bound; above 1 is
refused. `limit` is the bound in unit roundoffs.

Then rows of such sums, of terms with either sign, each row of another scale between 1 and 2**-30: the largest
error of an element or of a group as a share of its bound. Wrong: all rows below a hundredth, or a millionth,
of the largest row's scale left at zero, one row in bfloat16 or tf32.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import common
import ml_dtypes
import numpy as np
import numpy.typing as npt

from kcurate.problem.compare import Magnitudes, bound_of, deviation, norm_bound
from kcurate.problem.inputs.contents import KEPT_TERMS, make
from kcurate.records import Buffer, Init, Tolerance

Array = npt.NDArray[Any]
U = 2.0**-24
INPUTS: Mapping[str, Init] = {
    "uniform(0, 1)": Init("uniform"),
    "uniform(-1, 2)": Init("uniform", {"low": -1, "high": 2}),
    "normal(0.25, 1)": Init("normal", {"mean": 0.25}),
    "uniform(0.5, 1.5)": Init("uniform", {"low": 0.5, "high": 1.5}),
}


def chain(terms: Array) -> Array:
    """One addition after the other along the last axis, in float32."""
    total: Array = np.cumsum(terms, axis=-1, dtype=np.float32)[..., -1]
    return total


def tree(terms: Array) -> Array:
    while terms.shape[-1] > 1:
        half = terms.shape[-1] // 2
        terms = terms[..., :half] + terms[..., half:]
    return terms[..., 0]


def kahan(terms: Array) -> Array:
    """4096 compensated chains, joined by a tree."""
    columns = terms.reshape(-1, min(4096, terms.size))
    total, lost = np.zeros_like(columns[0]), np.zeros_like(columns[0])
    for row in columns:
        y = row - lost
        new = total + y
        lost = (new - total) - y
        total = new
    return tree(total)


def tf32(x: Array) -> Array:
    rounded: Array = ((x.view(np.uint32) + np.uint32(0x1000)) & np.uint32(0xFFFFE000)).view(np.float32)
    return rounded


def bf16(x: Array) -> Array:
    return x.astype(ml_dtypes.bfloat16).astype(np.float32)


def left_out(x: Array) -> Array:
    kept = x.copy()
    kept[::100] = 0
    return tree(kept)


def narrow_tree(x: Array) -> Array:
    """A tree whose every sum is kept in bfloat16."""
    while x.size > 1:
        x = bf16(x[: x.size // 2] + x[x.size // 2 :])
    return x[0]


HONEST: Mapping[str, Callable[[Array], Array]] = {
    "one chain": chain,
    "blocks, then a chain": lambda x: chain(tree(x.reshape(-1, 256))),
    "4096 chains": lambda x: tree(chain(x.reshape(-1, min(4096, x.size)).T)),
    "tree": tree,
    "kahan": kahan,
}
WRONG: Mapping[str, Callable[[Array], Array]] = {
    "a quarter times four": lambda x: 4 * tree(x[: x.size // 4]),
    "every fourth times four": lambda x: 4 * tree(x[::4]),
    "one in a hundred left out": left_out,
    "bf16 inputs": lambda x: tree(bf16(x)),
    "tf32 inputs": lambda x: tree(tf32(x)),
    "bf16 sums": narrow_tree,
}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--largest", type=int, default=26)
    parser.add_argument("--seeds", type=int, default=3)
    options = parser.parse_args()
    rows = []
    for power in range(10, options.largest + 1, 4):
        for name, init in INPUTS.items():
            for variation in ("nominal", "structured"):
                rows += measured(1 << power, name, init, variation, options.seeds)
    for power in range(6, 15, 4):
        for shape in ((64, 64), (512, 8), (4096,)):
            rows += measured_rows(1 << power, shape, options.seeds)
    options.out.write_text(json.dumps({"rows": rows}, indent=1))


def measured(count: int, name: str, init: Init, variation: str, seeds: int) -> list[dict[str, Any]]:
    buffer = Buffer("float32", (count,), init)
    bound = norm_bound("float32", Tolerance(), count, exact=True)
    shares: dict[str, list[float]] = {}
    for seed in range(seeds):
        x = make("x", buffer, {}, seed, variation, min(1.0, KEPT_TERMS / count))
        exact = float(x.sum(dtype=np.float64))
        for how, function in {**HONEST, **WRONG}.items():
            error = abs(float(function(x)) - exact) / abs(exact)
            shares.setdefault(how, []).append(error / bound)
    print(f"{count:9d} {name} {variation}, limit {bound / U:.0f}")
    for how, found in shares.items():
        print(f"    {how:28s}", " ".join(f"{share:9.3g}" for share in found), flush=True)
    return [
        {"terms": count, "inputs": name, "variation": variation, "sum": how, "honest": how in HONEST,
         "bound": bound, "shares": found}
        for how, found in shares.items()
    ]  # fmt: skip


ROWS: Mapping[str, Callable[[Array, Array], Array]] = {
    "zeros below 1/100": lambda x, scale: np.where(scale < 1e-2, np.float32(0), tree(x) * scale),
    "zeros below 1/1000000": lambda x, scale: np.where(scale < 1e-6, np.float32(0), tree(x) * scale),
    "the largest row in bf16": lambda x, scale: tree(np.where(largest(x, scale), bf16(x), x)) * scale,
    "the largest row in tf32": lambda x, scale: tree(np.where(largest(x, scale), tf32(x), x)) * scale,
}


def largest(x: Array, scale: Array) -> Array:
    """Which terms belong to the row of the largest scale."""
    at = np.zeros(scale.size, bool)
    at[np.flatnonzero(scale == scale.max())[: scale.size // 64]] = True
    return at.reshape(*scale.shape, 1)


def measured_rows(terms: int, shape: tuple[int, ...], seeds: int) -> list[dict[str, Any]]:
    """As `measured`, for rows of sums; an output of one axis has pieces of 64 elements instead."""
    shares: dict[str, list[float]] = {}
    for seed in range(seeds):
        rng = np.random.default_rng(seed)
        width = shape[-1] if len(shape) > 1 else 64
        powers = rng.integers(-30, 1, -(-int(np.prod(shape)) // width))
        powers[0] = 0
        scale = np.exp2(powers).astype(np.float32).repeat(width).reshape(shape)
        x = rng.standard_normal((*shape, terms), np.float32)
        exact = (x.sum(axis=-1, dtype=np.float64) * scale).astype(np.float32).ravel()
        whole, row = Magnitudes.of(exact), shape[-1] if len(shape) > 1 else 0
        bound = bound_of("float32", Tolerance(), terms, whole, row=row)
        honest = {"one chain": chain(x) * scale, "tree": tree(x) * scale}
        for how, got in {**honest, **{how: make_rows(x, scale) for how, make_rows in ROWS.items()}}.items():
            ratio, partitions = deviation(exact, got.ravel(), bound, whole.largest)
            groups = [
                (one.norm("errors") / bound.of_groups(one)).max(initial=0) for one in partitions.values()
            ]
            shares.setdefault(how, []).append(float(max(ratio.max(), *groups)))
    print(f"{terms:9d} terms, rows {shape}")
    for how, found in shares.items():
        print(f"    {how:28s}", " ".join(f"{share:9.3g}" for share in found), flush=True)
    return [
        {"terms": terms, "shape": shape, "sum": how, "honest": how not in ROWS, "shares": found}
        for how, found in shares.items()
    ]


if __name__ == "__main__":
    assert common
    main()
