"""From programs that run to admitted problems: HeCBench, drawn by seed, each with its own Makefile.

    python benchmarks/capture_hecbench.py --tree HeCBench/src --out ROWS.jsonl --keep DIR [--count 250]
        [--seed 1] [--part 1/4] [--recorder auto] [--arch sm_90] [--jobs 4] [--budget-s 540]
        [--stage record|draft] [--pairs DIR] [--draft-s 300]

Each program is copied, built (`make ARCH=...`), extracted, run under `kcurate capture -- make run`, and its
launched kernels are drafted, on the emulator and the GPU. One row a program is appended at once; run again,
it goes on where it stopped, and a later row of a program replaces the earlier. `--keep` holds each program's
workspace, without samples of contents: `--stage record` stops there, and `--stage draft` goes on from there,
on this machine or another, with the programs of the rows in their order. `--pairs` gets what the rules of
deopt make of the admitted problems (`deopt_rules.py --pairs` judges these). Kernels of libraries are counted
apart. Without a GPU (`--recorder cudart`) programs are linked with `-cudart shared`, through
NVCC_APPEND_FLAGS. Prints the funnel and the reason of each loss.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import random
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from kcurate.capture import building, running
from kcurate.cuda_source.demangled import Demangled

ROOT = Path(__file__).resolve().parent.parent
KCURATE = [sys.executable, "-m", "kcurate"]
BUILD_S, RUN_S, DRAFT_S = 180, 60, 300
SOURCES = (".cu", ".cuh", ".h", ".hpp", ".cpp", ".inc", ".inl")
DEFINED = re.compile(r"__global__([^;{}]{0,400})")


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
            env={
                **os.environ,
                "PYTHONPATH": os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH")))),
                **more,
            },
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


def recorded(tree: Path, name: str, given: argparse.Namespace, more: dict[str, str]) -> dict[str, Any]:
    """One program built and run; its workspace goes to the folder of kept ones."""
    row: dict[str, Any] = {"program": name, "recorder": given.recorder, "cpu": platform.machine()}
    with tempfile.TemporaryDirectory(prefix="hecbench-") as temporary:
        home = Path(temporary) / "src"
        home.mkdir()
        for other in tree.iterdir():  # Makefiles look into their neighbours
            if other.name != name:
                (home / other.name).symlink_to(other.resolve())
        folder, work = home / name, Path(temporary) / "work"
        shutil.copytree(tree / name, folder, symlinks=True)
        started = time.monotonic()
        code, text = call(["make", f"ARCH={given.arch}"], folder, BUILD_S, **more)
        row["build_s"] = round(time.monotonic() - started, 1)
        if code != 0:
            return row | {"outcome": "not_built", "why": last(text)}
        call([*KCURATE, "extract", str(folder), "-w", str(work), "--no-compile"], folder, DRAFT_S)
        started = time.monotonic()
        words = [*KCURATE, "capture", "-w", str(work), "--recorder", given.recorder, "--timeout", str(RUN_S)]
        code, text = call([*words, "--", "make", "run", f"ARCH={given.arch}"], folder, 2 * RUN_S, **more)
        row |= {"run_s": round(time.monotonic() - started, 1), "exit_code": code}
        records = read(work)
        if not records:
            return row | {"outcome": "no_launches", "why": last(text)}
        row |= {"device": records[0]["device"], "outcome": "launched"}
        with tarfile.open(given.keep / f"{name}.tar", "w") as file:
            file.add(work, "work", filter=lambda one: None if one.name.endswith("/data") else one)
    return row


def drafted(tree: Path, row: dict[str, Any], given: argparse.Namespace) -> dict[str, Any]:
    """The row with what became of the kernels that were launched."""
    kept = given.keep / f"{row['program']}.tar"
    if row["outcome"] != "launched":
        return row
    with tempfile.TemporaryDirectory(prefix="hecbench-") as temporary:
        with tarfile.open(kept) as file:
            file.extractall(temporary, filter="data")
        work = Path(temporary) / "work"
        call(
            [*KCURATE, "extract", str(tree / row["program"]), "-w", str(work), "--no-compile"], work, DRAFT_S
        )
        started = time.monotonic()
        words = [*KCURATE, "problem", "draft", "-w", str(work), "--tree", str(tree / row["program"])]
        code, text = call([*words, "--again"], Path(temporary), given.draft_s)
        row |= {"draft_s": round(time.monotonic() - started, 1), "draft_ended": code is not None}
        if given.pairs is not None:
            call([*KCURATE, "deopt", "-w", str(work)], work, DRAFT_S)
            if (work / "pairs").is_dir():
                shutil.copytree(work / "pairs", given.pairs / row["program"], dirs_exist_ok=True)
        return row | {"kernels": kernels(work, read(work), text, tree / row["program"])}


def read(work: Path) -> list[dict[str, Any]]:
    """The records of a workspace."""
    return [json.loads(path.read_bytes()) for path in sorted(work.glob("captures/*/*.json"))]


def last(text: str) -> str:
    """The last line that says something."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return next((line for line in reversed(lines) if "error" in line.lower()), lines[-1] if lines else "")[
        :200
    ]


def kernels(work: Path, records: list[dict[str, Any]], notes: str, folder: Path) -> dict[str, str]:
    """What became of each launched kernel, by name; `library`: the program's own sources do not have it."""
    launched = {Demangled.of(record["kernel"]).base for record in records}
    said = {}
    for line in notes.splitlines():
        kernel, _, rest = line.partition(": ")
        said[kernel.rsplit("/", 1)[-1]] = rest.split(":")[0][:60]
    texts = [path.read_text("utf-8", "replace") for path in folder.rglob("*") if path.suffix in SOURCES]
    own = {word for text in texts for head in DEFINED.findall(text) for word in re.findall(r"\w+", head)}
    found = {name: "not_extracted" if name in own else "library" for name in sorted(launched)}
    for path in work.rglob("kernel.json"):
        name = json.loads(path.read_bytes())["name"].split("::")[-1]
        if name in launched:
            problem = path.parent / "problem.json"
            if problem.exists():
                one_size = json.loads(problem.read_bytes())["problem"].get("single_size")
                found[name] = "single_size" if one_size else "admitted"
            else:
                found[name] = said.get(path.parent.name, "not_drafted")
    return found


def report(rows: list[dict[str, Any]]) -> None:
    """The funnel."""
    outcomes = Counter(row["outcome"] for row in rows)
    ran = outcomes["launched"] + outcomes["no_launches"]
    print(f"{len(rows)} programs: {dict(outcomes)}")
    if ran:
        print(f"of {ran} that were built, {outcomes['launched'] / ran:.0%} gave launches")
    fates = Counter(fate for row in rows for fate in row.get("kernels", {}).values())
    total = sum(fates.values()) - fates["library"]
    if total:
        share = (fates["admitted"] + fates["single_size"]) / total
        print(f"{total} launched kernels, {share:.0%} with an admitted problem")
    for fate, count in fates.most_common():
        print(f"{count:6d} {fate}")


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--tree", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--keep", type=Path, required=True)
    parser.add_argument("--stage", choices=("record", "draft"))
    parser.add_argument("--pairs", type=Path)
    parser.add_argument("--draft-s", type=float, default=DRAFT_S)
    parser.add_argument("--count", type=int, default=250)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--part", default="1/1")
    parser.add_argument("--recorder", default="auto")
    parser.add_argument("--arch", default="sm_90")
    parser.add_argument("--jobs", type=int, default=4)
    parser.add_argument("--budget-s", type=float, default=540.0)
    given = parser.parse_args()
    given.keep.mkdir(parents=True, exist_ok=True)
    until_s = time.monotonic() + given.budget_s
    if given.stage != "draft":
        given.recorder = running.chosen(given.recorder)
    rows = {one["program"]: one for one in map(json.loads, lines(given.out))}

    def work(name: str) -> dict[str, Any] | None:
        row = rows.get(name)
        if time.monotonic() > until_s:
            return None
        if row is None:
            row = recorded(given.tree, name, given, more)
        return row if given.stage == "record" else drafted(given.tree, row, given)

    def left(name: str) -> bool:
        if name not in rows:
            return given.stage != "draft"
        return given.stage != "record" and rows[name]["outcome"] == "launched" and "kernels" not in rows[name]

    chosen = rows if given.stage == "draft" else drawn(given.tree, given.count, given.seed, given.part)
    names = [one for one in chosen if left(one)]
    with tempfile.TemporaryDirectory(prefix="libcudart-") as libraries:
        more = {} if given.stage == "draft" else flags(given.recorder, Path(libraries))
        with ThreadPoolExecutor(given.jobs) as pool, given.out.open("a") as file:
            for done in as_completed([pool.submit(work, name) for name in names]):
                if (row := done.result()) is not None:
                    rows[row["program"]] = row
                    file.write(json.dumps(row) + "\n")
                    file.flush()
                    print(row["program"], row["outcome"], row.get("kernels", row.get("why", "")), flush=True)
    report(list(rows.values()))


def lines(path: Path) -> list[str]:
    """The lines of a file, none if there is none."""
    return path.read_text().splitlines() if path.exists() else []


if __name__ == "__main__":
    main()
