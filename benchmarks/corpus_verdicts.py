"""The built-in pairs on GPUs, under the judge's present protocol.

    python benchmarks/corpus_verdicts.py judge --out ROWS.jsonl [--gpus 0,1] [--jobs N] [--seconds S]
        [--draw N --seed S] [PAIR..]
    python benchmarks/corpus_verdicts.py take ROWS.jsonl

`judge` appends a verdict a pair at once and prints outcomes, verdicts a second, and what was not confirmed.
Run again, it judges the pairs that have no row for their present content; with `--again` also those that
are not confirmed. `--draw` judges only so many pairs, drawn by
`--seed`. `take` writes the last verdict of each pair beside it.
"""

from __future__ import annotations

import argparse
import random
import time
from collections import Counter
from pathlib import Path

from common import judged_on_gpus, latest

from kcurate.core import resources, store
from kcurate.records import Outcome
from kcurate.verdicts.keys import verdict_key


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    commands = parser.add_subparsers(required=True)
    judge = commands.add_parser("judge")
    judge.add_argument("pairs", nargs="*", type=Path, metavar="PAIR")
    judge.add_argument("--out", type=Path, required=True)
    judge.add_argument("--gpus", default="0")
    judge.add_argument("--jobs", type=int, default=0, help="candidates in flight; 0: as suits the machine")
    judge.add_argument("--seconds", type=float, default=1e9, help="stop then")
    judge.add_argument("--again", action="store_true")
    judge.add_argument("--draw", type=int)
    judge.add_argument("--seed", type=int, default=1)
    judge.set_defaults(run=judge_all)
    take = commands.add_parser("take")
    take.add_argument("rows", type=Path)
    take.set_defaults(run=take_rows)
    options = parser.parse_args()
    options.run(options)


def judge_all(options: argparse.Namespace) -> None:
    """Judge what has no row."""
    started = time.monotonic()
    roots = options.pairs or [resources.pairs_dir()]
    pairs = [store.read_candidate(folder) for root in roots for folder in store.find_candidates(root)]
    if options.draw is not None:
        pairs = random.Random(options.seed).sample(pairs, options.draw)
    rows = latest(options.out)
    if options.again:
        rows = {key: row for key, row in rows.items() if row.outcome is Outcome.CONFIRMED}
    left = {pair.id: pair for pair in pairs if verdict_key(pair) not in rows}
    judged, stages = 0, Counter[str]()
    for name, verdict in judged_on_gpus(
        left, options.out, gpus=options.gpus, jobs=options.jobs, seconds=options.seconds
    ):
        judged += 1
        stages.update(verdict.stages_s)
        if verdict.outcome is not Outcome.CONFIRMED:
            print(f"{name}: {verdict.outcome.value}: {verdict.detail}", flush=True)
    wall_s = time.monotonic() - started
    current = latest(options.out)
    outcomes = Counter(current[key].outcome.value for key in map(verdict_key, pairs) if key in current)
    rate = judged / wall_s
    print(*(f"{name} {total / max(1, judged):.3f} s" for name, total in stages.most_common()), sep=", ")
    print(f"{judged} judged in {wall_s:.0f} s, {rate:.2f} a second; of {len(pairs)} pairs {dict(outcomes)}")


def take_rows(options: argparse.Namespace) -> None:
    """Write verdicts beside their pairs."""
    rows, taken = latest(options.rows), 0
    for folder in store.find_candidates(resources.pairs_dir()):
        verdict = rows.get(verdict_key(store.read_candidate(folder)))
        if verdict is not None and verdict.outcome is Outcome.CONFIRMED:
            store.write_verdict(folder, verdict)
            taken += 1
    print(f"{taken} verdicts written")


if __name__ == "__main__":
    main()
