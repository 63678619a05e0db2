"""The cheats of `tests/cheats` on a GPU: whether each gets an expected outcome.

    python benchmarks/cheats.py --out ROWS.jsonl [--only triton] [--gpus 0,1] [--jobs 8] [--budget-s 100]

A row a case is appended at once; run again, it judges the cases that have none for their present content.
Prints what was not expected.
"""

from __future__ import annotations

import argparse
import sys
import time
import tomllib
from collections.abc import Generator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from kcurate.core import store  # noqa: E402
from kcurate.judge.judging import JudgeConfig  # noqa: E402
from kcurate.judge.referees.batch import judge_many  # noqa: E402
from kcurate.records import Verdict  # noqa: E402
from kcurate.verdicts.keys import verdict_key  # noqa: E402

CHEATS = ROOT / "tests" / "cheats"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--only", default="", help="names that hold this text")
    parser.add_argument("--gpus", default="0")
    parser.add_argument("--jobs", type=int, default=8)
    parser.add_argument("--budget-s", type=float, default=100.0)
    given = parser.parse_args()
    started = time.monotonic()
    expected = tomllib.loads((CHEATS / "expected.toml").read_text())
    cases = {
        name: store.read_candidate(CHEATS / name)
        for name, row in expected.items()
        if given.only in name and "cuda" in row
    }
    keys = {verdict_key(one): name for name, one in cases.items()}
    rows = list(store.read_jsonl(given.out, Verdict)) if given.out.exists() else []
    done = {keys[row.key] for row in rows if row.key in keys}
    left = [name for name in cases if name not in done]
    numbered = [(at, cases[name]) for at, name in enumerate(left)]
    gpus = tuple(map(int, given.gpus.split(",")))
    verdicts = judge_many(numbered, JudgeConfig("cuda", gpus[0]), gpus=gpus, jobs=given.jobs)
    for _, verdict in verdicts:
        store.append_jsonl(given.out, verdict)
        rows.append(verdict)
        if time.monotonic() - started > given.budget_s:
            break
    if isinstance(verdicts, Generator):
        verdicts.close()  # ends the judging processes
    current = {keys[row.key]: row for row in rows if row.key in keys}
    wrong = {name: row for name, row in current.items() if row.outcome.value not in expected[name]["cuda"]}
    for name, row in wrong.items():
        print(f"{name}: {row.outcome.value}, expected {expected[name]['cuda']}: {row.detail}")
    print(f"{len(current)} of {len(cases)} cases judged, {len(wrong)} with another outcome than expected")


if __name__ == "__main__":
    main()
