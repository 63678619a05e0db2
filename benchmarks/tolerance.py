"""How far honest float32 sums and wrong ones lie from the norm bound of `compare`, up to 2**26 terms.

    python benchmarks/tolerance.py --out FILE.json [--largest 26] [--seeds 3]

One sum of K terms, in NumPy, as a side would take it, against the sum in float64: in one chain (a thread, or
an atomic addition for each term), partial sums of 256 terms added in a chain (an atomic addition for each
block), 4096 chains that a tree joins, a tree, Kahan. Wrong: a quarter of the data times four, one term in a
hundred left out, inputs in bfloat16 or tf32, partial sums in bfloat16. Inputs are nominal or structured (of
few nonzero terms, as the judge makes them). Prints each error as a share of the norm bound; above 1 is
refused. `limit` is the bound in unit roundoffs.
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

from kcurate.problem.compare import norm_bound
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


if __name__ == "__main__":
    assert common
    main()
