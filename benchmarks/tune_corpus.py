"""Tunes the weakest fast sides of the built-in pairs with `kcurate tune`.

    python benchmarks/tune_corpus.py --gpu 0 [--sides 40] [--trials 24] [--seconds 600]   needs a GPU
    python benchmarks/tune_corpus.py --list [--sides 40]                                  which they are

The best side of each family, in CUDA and with a named constant, lowest share of the data sheet first. Appends
a row a side to docs/data/<gpu-model>/tune.jsonl: its device, best setting and ratio. Run again, it goes on
where it stopped: sides with a row of the same content are left out, within a side verdicts are on file.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Iterator
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from roofline import DATA, MODEL, Best, best_sides

from kcurate.core import store
from kcurate.core.config import DEFAULT_WORKSPACE
from kcurate.errors import KcurateError
from kcurate.tune import knobs, stage


def weakest(count: int) -> list[Best]:
    """The best sides that can be tuned, lowest share of the roofline first."""
    able = (one for one in best_sides(MODEL) if one.candidate.fast.language == "cuda")
    able = (one for one in able if knobs.find(one.candidate.fast))
    return sorted(able, key=lambda one: one.share)[:count]


def known(path: Path) -> set[str]:
    """The keys of the sides that have a row."""
    return {json.loads(line)["key"] for line in path.read_text().splitlines()} if path.exists() else set()


def tuned(sides: list[Best], path: Path, gpu: str, trials: int, seconds: float) -> Iterator[str]:
    """Append a row a side until time is up; yields a line each."""
    end, done = time.monotonic() + seconds, known(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    for one in sides:
        key = store.side_key(one.candidate, "fast")
        if key in done or time.monotonic() > end:
            continue
        config = stage.TuneConfig(DEFAULT_WORKSPACE, one.candidate.id, trials=trials, gpu=gpu)
        try:
            found = stage.run(config)
        except KcurateError as error:
            yield f"{one.pair}: {error}"
            continue
        best = found.best
        row = {"pair": one.pair, "key": key, "device": found.device, "tried": len(found.trials)}
        row |= {"setting": dict(best.setting) if best else None, "ratio": best.ratio if best else None}
        with path.open("a") as out:
            out.write(json.dumps(row) + "\n")
        said = f"{best.ratio:.2f}x at {stage.spelled(best.setting)}" if best else "nothing better"
        yield f"{one.pair}: {said}"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--gpu")
    parser.add_argument("--sides", type=int, default=40)
    parser.add_argument("--trials", type=int, default=24)
    parser.add_argument("--seconds", type=float, default=600.0)
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--data", type=Path, default=DATA / MODEL / "tune.jsonl")
    options = parser.parse_args()
    sides = weakest(options.sides)
    if options.list:
        for one in sides:
            names = " ".join(f"{knob.name}={knob.value}" for knob in knobs.find(one.candidate.fast))
            print(f"{one.share:4.0%} {one.pair}: {names}")
    elif options.gpu is None:
        parser.error("give --gpu or --list")
    else:
        for line in tuned(sides, options.data, options.gpu, options.trials, options.seconds):
            print(line, flush=True)


if __name__ == "__main__":
    main()
