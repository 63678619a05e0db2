"""From programs that run to admitted problems: HeCBench, drawn by seed, each with its own Makefile.

    python benchmarks/capture_hecbench.py --tree HeCBench/src --out ROWS.jsonl [--count 250] [--seed 1]
        [--part 1/4] [--recorder auto] [--arch sm_90] [--jobs 4] [--budget-s 540]

Each program is copied, built (`make ARCH=...`), extracted, run under `kcurate capture -- make run`, and its
launched kernels are drafted on the emulator. One row a program is appended at once; run again, it goes on
where it stopped. Kernels of libraries are not looked at. Without a GPU (`--recorder cudart`) programs are
linked with `-cudart shared`, through NVCC_APPEND_FLAGS. Prints the funnel with the reason of each loss.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import random
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from kcurate.capture import building, raw, running

ROOT = Path(__file__).resolve().parent.parent
BUILD_S, RUN_S, DRAFT_S = 180, 60, 300


def drawn(tree: Path, count: int, seed: int, part: str) -> list[str]:
    """The programs of one part, by folder name."""
    every = sorted(path.parent.name for path in tree.glob("*-cuda/Makefile"))
    chosen = sorted(random.Random(seed).sample(every, min(count, len(every))))
    number, parts = map(int, part.split("/"))
    return chosen[number - 1 :: parts]


def call(words: list[str], folder: Path, limit_s: float, **more: str) -> tuple[int | None, str]:
    """Exit code (None: ran out of time) and what was written to stderr."""
    try:
        done = subprocess.run(
            words,
            cwd=folder,
            env={**os.environ, "PYTHONPATH": str(ROOT), **more},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            timeout=limit_s,
            check=False,
        )
    except subprocess.TimeoutExpired as late:
        return None, (late.stderr or b"").decode("utf-8", "replace")
    return done.returncode, done.stderr.decode("utf-8", "replace")


def flags(recorder: str, folder: Path) -> dict[str, str]:
    """What nvcc needs so that the recorder sees the program."""
    if recorder == "cupti":
        return {}
    library = next(building.stand_in().glob("libcudart.so.*"))
    link = folder / "libcudart.so"
    if not link.exists():
        link.symlink_to(library)
    return {"NVCC_APPEND_FLAGS": f"-cudart shared -L{folder}"}


def one(tree: Path, name: str, recorder: str, arch: str, more: dict[str, str]) -> dict[str, Any]:
    """One program's row."""
    row: dict[str, Any] = {"program": name, "recorder": recorder, "cpu": platform.machine()}
    with tempfile.TemporaryDirectory(prefix="hecbench-") as temporary:
        home = Path(temporary) / "src"
        home.mkdir()
        for other in tree.iterdir():  # Makefiles look into their neighbours
            if other.name != name:
                (home / other.name).symlink_to(other.resolve())
        folder, work = home / name, Path(temporary) / "work"
        shutil.copytree(tree / name, folder, symlinks=True)
        started = time.monotonic()
        code, text = call(["make", f"ARCH={arch}"], folder, BUILD_S, **more)
        row["build_s"] = round(time.monotonic() - started, 1)
        if code != 0:
            return row | {"outcome": "not_built", "why": last(text)}
        kcurate = [sys.executable, "-m", "kcurate"]
        call([*kcurate, "extract", str(folder), "-w", str(work), "--no-compile"], folder, DRAFT_S)
        started = time.monotonic()
        words = [*kcurate, "capture", "-w", str(work), "--recorder", recorder, "--timeout", str(RUN_S)]
        code, text = call([*words, "--", "make", "run", f"ARCH={arch}"], folder, 2 * RUN_S, **more)
        row |= {"run_s": round(time.monotonic() - started, 1), "exit_code": code}
        records = [json.loads(path.read_bytes()) for path in sorted(work.glob("captures/*/*.json"))]
        if not records:
            return row | {"outcome": "no_launches", "why": last(text)}
        row["device"] = records[0]["device"]
        _, text = call([*kcurate, "problem", "draft", "-w", str(work)], folder, DRAFT_S)
        row["kernels"] = kernels(work, records, text)
        return row | {"outcome": "launched"}


def last(text: str) -> str:
    """The last line that says something."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return next((line for line in reversed(lines) if "error" in line.lower()), lines[-1] if lines else "")[
        :200
    ]


def kernels(work: Path, records: list[dict[str, Any]], notes: str) -> dict[str, str]:
    """What became of each launched kernel of the program's own, by name."""
    launched = {raw.base_name(record["kernel"]) for record in records}
    said = {}
    for line in notes.splitlines():
        kernel, _, rest = line.partition(": ")
        said[kernel.rsplit("/", 1)[-1]] = rest.split(":")[0][:60]
    found: dict[str, str] = dict.fromkeys(sorted(launched), "not_extracted")
    for path in work.rglob("kernel.json"):
        name = json.loads(path.read_bytes())["name"].split("::")[-1]
        if name in launched:
            admitted = (path.parent / "problem.json").exists()
            found[name] = "admitted" if admitted else said.get(path.parent.name, "not_drafted")
    return found


def report(rows: list[dict[str, Any]]) -> None:
    """The funnel."""
    outcomes = Counter(row["outcome"] for row in rows)
    ran = outcomes["launched"] + outcomes["no_launches"]
    print(f"{len(rows)} programs: {dict(outcomes)}")
    if ran:
        print(f"of {ran} that were built, {outcomes['launched'] / ran:.0%} gave launches")
    fates = Counter(fate for row in rows for fate in row.get("kernels", {}).values())
    total = sum(fates.values())
    if total:
        print(f"{total} launched kernels, {fates['admitted'] / total:.0%} with an admitted problem")
    for fate, count in fates.most_common():
        print(f"{count:6d} {fate}")


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--tree", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--count", type=int, default=250)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--part", default="1/1")
    parser.add_argument("--recorder", default="auto")
    parser.add_argument("--arch", default="sm_90")
    parser.add_argument("--jobs", type=int, default=4)
    parser.add_argument("--budget-s", type=float, default=540.0)
    options = parser.parse_args()
    until_s = time.monotonic() + options.budget_s
    recorder = running.chosen(options.recorder)
    rows = [json.loads(line) for line in options.out.read_text().splitlines()] if options.out.exists() else []
    known = {row["program"] for row in rows}
    names = [n for n in drawn(options.tree, options.count, options.seed, options.part) if n not in known]
    with tempfile.TemporaryDirectory(prefix="libcudart-") as libraries:
        more = flags(recorder, Path(libraries))

        def work(name: str) -> dict[str, Any] | None:
            if time.monotonic() > until_s:
                return None
            return one(options.tree, name, recorder, options.arch, more)

        with ThreadPoolExecutor(options.jobs) as pool, options.out.open("a") as file:
            for row in pool.map(work, names):
                if row is not None:
                    rows.append(row)
                    file.write(json.dumps(row) + "\n")
                    file.flush()
                    print(row["program"], row["outcome"], row.get("kernels", row.get("why", "")), flush=True)
    report(rows)


if __name__ == "__main__":
    main()
