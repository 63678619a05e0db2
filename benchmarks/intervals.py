"""How often 95% intervals by family hold the truth: as `kcurate eval` makes them, and the plain bootstrap.

    python benchmarks/intervals.py [ROWS]        # default docs/data/cpu/intervals.jsonl; about 5 minutes

Simulated families of one to six tasks, half of the variance the family's (`tests/train/test_intervals.py`).
A row that is there is kept. Not covered: whether real families are like these.
"""

from __future__ import annotations

import json
import platform
import sys
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests/train"))

from test_intervals import CASES

from kcurate.evaluation import intervals

ROOT = Path(__file__).resolve().parent.parent
RUNS = 1500


def plain(
    values: list[float], families: list[str], bounds: tuple[float, float] | None = None, seed: int = 0
) -> intervals.Estimate:
    """The percentile bootstrap over families, without a correction."""
    sums, counts = intervals._by_family(values, families)
    means, _ = intervals._resampled(sums, counts, np.random.default_rng(seed))
    low, high = np.quantile(means, [0.025, 0.975])
    return intervals.Estimate(float(sums.sum() / counts.sum()), float(low), float(high))


def main() -> None:
    """Add the rows that are missing."""
    path = Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "docs/data/cpu/intervals.jsonl"
    path.parent.mkdir(parents=True, exist_ok=True)
    rows = [json.loads(line) for line in path.read_text().splitlines()] if path.is_file() else []
    known = {(row["case"], row["families"], row["how"]) for row in rows}
    intervals.RESAMPLES = 500
    for how, mean in (("corrected", intervals.mean), ("plain", plain)):
        intervals.mean = mean
        for case, covered in CASES.items():
            for count in (10, 20, 40):
                if (case, count, how) not in known:
                    row = {"case": case, "families": count, "how": how, "covered": covered(count, RUNS)}
                    with path.open("a") as file:
                        file.write(json.dumps({**row, "runs": RUNS, "machine": platform.machine()}) + "\n")


if __name__ == "__main__":
    main()
