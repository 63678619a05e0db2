"""Sides written without a GPU, each against the present fast side of its pair; the best replaces it.

    python benchmarks/challengers.py judge --gpu 0 [--seconds 500] [NAME...]   needs a GPU
    python benchmarks/challengers.py accept [NAME...]                        the winners, into their pairs
    python benchmarks/challengers.py list [NAME...]                          what awaits a GPU

`benchmarks/challengers/PAIR--TAG/` holds `fast.cu` and `side.json`, the `fast` of a `pair.json`; problem and
opponent are the pair's. `judge` appends a row each to docs/data/MODEL/challengers.jsonl; run again on that
GPU, it goes on where it stopped. `accept` takes, for each pair, the confirmed challenger with the best ratio
(the H200's, if it has one), if that is at least GAIN: its code and plan become the pair's, whose verdicts and
worths go, since they were another side's, with the verdicts behind the worths and its profiles, and all of
that pair's challengers go. Then `kcurate validate` the pairs that it names.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import shutil
import sys
import time
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks import worth
from kcurate.backends import open_device
from kcurate.core import codec, resources, store
from kcurate.judge.judging import JudgeConfig
from kcurate.judge.referees.batch import judge_many
from kcurate.profiles import on_file
from kcurate.records import SIDES, Candidate, Outcome, Side, Verdict
from kcurate.verdicts.keys import verdict_key

ROOT = Path(__file__).resolve().parent.parent
FOLDER = ROOT / "benchmarks/challengers"
DATA = ROOT / "docs/data"
# What a side must win for the verdicts of all GPUs, the worths and the profile of the pair to be given up.
GAIN = 1.02


def pair_folder(name: str) -> Path:
    """The folder of the pair that a challenger is for."""
    [found] = resources.pairs_dir().glob(f"*/{name.partition('--')[0]}")
    return found


def challenging(name: str) -> Candidate:
    """The pair's problem, its fast side as the slow one, and the challenger as the fast one."""
    pair = store.read_candidate(pair_folder(name))
    data = json.loads((FOLDER / name / "side.json").read_text())
    code = (FOLDER / name / "fast.cu").read_text()
    fast = codec.from_data(Side, {"code": code, **data}, where=name)
    return replace(pair, id=f"challengers/{name}", slow=pair.fast, fast=fast)


def waiting(chosen: list[str]) -> list[str]:
    """The challengers, or those whose names begin with one of `chosen`."""
    names = sorted(path.parent.name for path in FOLDER.glob("*/side.json"))
    return [name for name in names if not chosen or name.startswith(tuple(chosen))]


def rows() -> Iterator[dict[str, Any]]:
    """What was measured so far, on any GPU, with its `model`; the H200's last."""
    for path in sorted(DATA.glob("*/challengers.jsonl")):
        for line in path.read_text().splitlines():
            yield json.loads(line) | {"model": path.parent.name}


def row_of(verdict: Verdict) -> dict[str, Any]:
    """A verdict as a row has it; `ratio`: the present side's time over the challenger's."""
    speedup = verdict.speedup
    return {
        "challenger": verdict.candidate.removeprefix("challengers/"),
        "key": verdict.key,
        "outcome": str(verdict.outcome),
        "us": verdict.fast.median_us if verdict.fast else None,
        "present_us": verdict.slow.median_us if verdict.slow else None,
        "ratio": speedup.ratio if speedup else None,
        "low": speedup.low if speedup else None,
        "high": speedup.high if speedup else None,
        "detail": verdict.detail,
        "log": verdict.log,
        "device": verdict.environment.device,
        "driver": verdict.environment.driver,
    }


def judge(names: list[str], gpu: int, seconds: float) -> None:
    """Append a row for each that has none, until time is up; those under way then have to begin again."""
    with contextlib.closing(open_device("cuda", gpu)) as device:
        path = DATA / "-".join(device.environment().device.lower().split()[:2]) / "challengers.jsonl"
    known = {row["key"] for row in rows() if row["model"] == path.parent.name}
    candidates = [one for one in map(challenging, names) if verdict_key(one) not in known]
    end = time.monotonic() + seconds
    judged = judge_many(enumerate(candidates), JudgeConfig("cuda", gpu), gpus=(gpu,))
    with contextlib.closing(judged):
        for _, verdict in judged:
            row = row_of(verdict)
            path.parent.mkdir(parents=True, exist_ok=True)
            with path.open("a") as out:
                out.write(json.dumps(row) + "\n")
            print(row["challenger"], row["outcome"], row["us"], row["detail"], flush=True)
            if time.monotonic() > end:
                return


def accept(chosen: list[str]) -> Iterator[str]:
    """Put the best challenger of each pair into the pair; yields the pairs."""
    found: dict[Path, list[tuple[float, str]]] = defaultdict(list)
    measured = {row["key"]: row for row in rows()}
    for name in waiting(chosen):
        row = measured.get(verdict_key(challenging(name)))
        if row is not None and row["outcome"] == Outcome.CONFIRMED and row["ratio"] >= GAIN:
            found[pair_folder(name)].append((row["ratio"], name))
    for folder, some in sorted(found.items()):
        _, best = max(some)
        pair = store.read_candidate(folder)
        store.write_candidate(folder, replace(pair, fast=challenging(best).fast, worth={}))
        worth.forget(pair.id)
        for verdict in (folder / "verdicts").glob("*.json"):
            verdict.unlink()
        for path in FOLDER.glob(f"{folder.name}--*"):
            shutil.rmtree(path)
        yield f"{folder.relative_to(resources.pairs_dir().parent)}  # {best}"
    if found:
        drop_profiles()


def drop_profiles() -> None:
    """Drop the profiles of sides that no pair has any more."""
    pairs = [store.read_candidate(folder) for folder in store.find_candidates(resources.pairs_dir())]
    keys = {on_file.side_key(pair, side) for pair in pairs for side in SIDES}
    worth.keep(on_file.shipped().glob("*.jsonl"), lambda row: row["key"] in keys)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("step", choices=("judge", "accept", "list"))
    parser.add_argument("names", nargs="*")
    parser.add_argument("--gpu", type=int, default=0)
    parser.add_argument("--seconds", type=float, default=500.0)
    options = parser.parse_intermixed_args()
    if options.step == "judge":
        judge(waiting(options.names), options.gpu, options.seconds)
        return
    for line in accept(options.names) if options.step == "accept" else waiting(options.names):
        print(line)


if __name__ == "__main__":
    main()
