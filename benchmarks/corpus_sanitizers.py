"""Both sides of every built-in pair under compute-sanitizer: memcheck, racecheck, initcheck, synccheck.

    python benchmarks/corpus_sanitizers.py --out FILE.jsonl [--gpu 0] [--jobs 12] [--seconds 500] [PAIR...]

Needs a GPU and the CUDA toolkit's compute-sanitizer. Each side runs at its first test size, as `kcurate
validate --sanitize` runs it; no times are taken. Appends a line a pair: its verdict key, the outcome, the
tools that found nothing on either side, and the report of one that did. Run again, it goes on where it
stopped: pairs that FILE or docs/data/*/sanitizers.jsonl has under the same key are left out.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import time
from collections import Counter
from pathlib import Path

from kcurate.core import resources, store
from kcurate.judge import sanitizer
from kcurate.judge.judging import JudgeConfig
from kcurate.judge.referees import batch
from kcurate.verdicts.keys import verdict_key

DATA = Path(__file__).resolve().parent.parent / "docs/data"


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("pairs", nargs="*", type=Path, metavar="PAIR")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--gpu", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=12)
    parser.add_argument("--seconds", type=float, default=1e9, help="stop then; pairs under way are lost")
    options = parser.parse_args()
    roots = options.pairs or [resources.pairs_dir()]
    candidates = [store.read_candidate(folder) for root in roots for folder in store.find_candidates(root)]
    files = {options.out, *DATA.glob("*/sanitizers.jsonl")}
    rows = [json.loads(line) for path in files if path.exists() for line in path.read_text().splitlines()]
    keys, names = {row.get("key") for row in rows}, {row["candidate"] for row in rows}
    candidates = [candidate for candidate in candidates if verdict_key(candidate) not in keys]
    candidates.sort(key=lambda candidate: candidate.id in names)
    config = JudgeConfig("cuda", options.gpu, sanitize=True, timed=False, spares=2)
    started = time.perf_counter()
    clean: Counter[str] = Counter()
    judged = batch.judge_many(enumerate(candidates), config, gpus=(options.gpu,), jobs=options.jobs)
    with contextlib.closing(judged), options.out.open("a") as out:
        for _, verdict in judged:
            tools = [tool for tool in sanitizer.TOOLS if tool in verdict.checks]
            clean.update([*tools, str(verdict.outcome)])
            row = {
                "candidate": verdict.candidate,
                "key": verdict.key,
                "outcome": str(verdict.outcome),
                "clean": tools,
                "detail": verdict.detail,
                "side": verdict.side,
                "log": verdict.log,
                "device": verdict.environment.device,
                "driver": verdict.environment.driver,
                "wall_s": verdict.wall_s,
            }
            out.write(json.dumps(row) + "\n")
            out.flush()
            if len(tools) < len(sanitizer.TOOLS):
                print(verdict.candidate, verdict.outcome, verdict.detail, tools, flush=True)
            if time.perf_counter() - started > options.seconds:
                break
    print(f"{len(candidates)} pairs, {time.perf_counter() - started:.0f} s", dict(clean), flush=True)


if __name__ == "__main__":
    main()
