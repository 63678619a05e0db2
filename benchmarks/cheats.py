"""The cheats of `tests/cheats` on a GPU: whether each gets an expected outcome.

    python benchmarks/cheats.py --out ROWS.jsonl [--only triton] [--gpus 0,1] [--jobs 8] [--budget-s 100]

A row a case is appended at once; run again, it judges the cases that have none for their present content.
Prints what was not expected.
"""

from __future__ import annotations

import argparse
import tomllib
from dataclasses import replace
from pathlib import Path

from common import judged_on_gpus, latest

from kcurate.core import codec, store
from kcurate.records import Verdict
from kcurate.verdicts.keys import verdict_key

CHEATS = Path(__file__).resolve().parent.parent / "tests" / "cheats"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--only", default="", help="names that hold this text")
    parser.add_argument("--gpus", default="0")
    parser.add_argument("--jobs", type=int, default=8)
    parser.add_argument("--budget-s", type=float, default=100.0)
    options = parser.parse_args()
    expected = tomllib.loads((CHEATS / "expected.toml").read_text())
    cases = {
        name: store.read_candidate(CHEATS / name)
        for name, row in expected.items()
        if options.only in name and "cuda" in row
    }
    keys = {name: verdict_key(candidate) for name, candidate in cases.items()}
    rows = latest(options.out)
    left = {name: candidate for name, candidate in cases.items() if keys[name] not in rows}
    new = judged_on_gpus(left, options.out, gpus=options.gpus, jobs=options.jobs, seconds=options.budget_s)
    rows |= {verdict.key: verdict for _, verdict in new}
    judged = {name: rows[key] for name, key in keys.items() if key in rows}
    wrong = {name: row for name, row in judged.items() if row.outcome.value not in expected[name]["cuda"]}
    for name, row in wrong.items():
        print(f"{name}: {row.outcome.value}, expected {expected[name]['cuda']}: {row.detail}")
    print(f"{len(judged)} of {len(cases)} cases judged, {len(wrong)} with another outcome than expected")
    lines = [codec.canonical_json(codec.to_data(facts(row))) for row in rows.values()]
    store.write_bytes(options.out, b"\n".join([*lines, b""]))


def facts(row: Verdict) -> Verdict:
    """What a committed row needs: outcome, reason, ratio, and where it was judged."""
    place = replace(row.environment, details={})
    return replace(row, environment=place, seeds=(), fast=None, slow=None, checks=(), stages_s={}, log="")


if __name__ == "__main__":
    main()
