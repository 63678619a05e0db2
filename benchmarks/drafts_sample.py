"""How many kernels of folders drawn by seed get an admitted problem from their text alone, on the emulator.

    python benchmarks/drafts_sample.py --hecbench HeCBench/src --samples cuda-samples --work DIR
        --out ROWS.jsonl [--seed 16] [--folders 40 15]

HeCBench: `*-cuda` folders with a kernel, without those that were looked at before: every tenth one from the
first, third and sixth on, and those in docs/data/cpu/capture-hecbench.jsonl. cuda-samples: folders below
`Samples` with a kernel. Each kernel is compiled by NVRTC and drafted; one row a kernel, with the first reason
of each loss. Prints the funnel.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import random
import sys
import time
from collections import Counter
from datetime import date
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from kcurate.core import store
from kcurate.draft.stage import DraftConfig, draft
from kcurate.extract.stage import ExtractConfig
from kcurate.extract.stage import run as extract
from kcurate.records import Kernel

LOOKED_AT = Path(__file__).resolve().parent.parent / "docs/data/cpu/capture-hecbench.jsonl"


def has_kernel(folder: Path) -> bool:
    """Whether a source in the folder, or below it, has the word `__global__`."""
    found = (path for suffix in ("cu", "cuh", "h") for path in folder.rglob(f"*.{suffix}"))
    return any(b"__global__" in path.read_bytes() for path in found)


def hecbench(tree: Path) -> list[str]:
    """The folders never looked at."""
    seen = {json.loads(line)["program"] for line in LOOKED_AT.read_text().splitlines()}
    every = sorted(path.name for path in tree.glob("*-cuda"))
    return [
        name for at, name in enumerate(every)
        if at % 10 not in (0, 2, 5) and name not in seen and has_kernel(tree / name)
    ]  # fmt: skip


def samples(tree: Path) -> list[str]:
    """The folders of cuda-samples."""
    folders = sorted({path.parent for path in tree.glob("Samples/**/*.cu")})
    return [folder.relative_to(tree).as_posix() for folder in folders if has_kernel(folder)]


def rows(tree: Path, folders: list[str], work: Path) -> list[dict[str, Any]]:
    """One row for each kernel of the folders."""
    lines: list[str] = []
    include = tuple(f"{folder}/**" for folder in folders)
    extract(ExtractConfig((tree,), work, "generic", jobs=0, include=include, compile=True))
    draft(DraftConfig(work), note=lines.append)
    said = dict(line.partition(": ")[::2] for line in lines)
    found = []
    for path in sorted((work / "kernels").rglob("kernel.json")):
        kernel = store.read_json(path, Kernel)
        first, _, rest = said[kernel.id].partition(": ")
        outcome = "admitted" if (path.parent / "problem.json").exists() else first
        why = rest.split(":")[0].split(", ")[0] if outcome == "open" else ""
        compiles = kernel.compiled is not None and kernel.compiled.ok
        sizes = first.partition(";")[0].removeprefix("admitted at ").removeprefix("sizes ")
        sizes = sizes if outcome == "admitted" else ""
        row = {"tree": tree.parent.name if tree.name == "src" else tree.name, "kernel": kernel.id}
        found.append(row | {"compiles": compiles, "outcome": outcome, "why": why, "sizes": sizes})
    return found


def report(found: list[dict[str, Any]]) -> None:
    """The funnel of one tree."""
    admitted = [row for row in found if row["outcome"] == "admitted"]
    compiled = [row for row in found if row["compiles"]]
    print(f"{found[0]['tree']}: {len(found)} kernels, {len(admitted)} admitted")
    print(f"  {len(compiled)} compile by themselves, {sum(r in compiled for r in admitted)} of them admitted")
    for fate, count in Counter(f"{r['outcome']} {r['why']} {r['sizes']}" for r in found).most_common():
        print(f"{count:6d} {fate}")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--hecbench", type=Path, required=True)
    parser.add_argument("--samples", type=Path, required=True)
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--seed", type=int, default=16)
    parser.add_argument("--folders", type=int, nargs=2, default=(40, 15))
    options = parser.parse_args()
    print(f"{date.today()}, {platform.machine()}, {os.cpu_count()} cores, seed {options.seed}")
    trees = (options.hecbench, hecbench(options.hecbench)), (options.samples, samples(options.samples))
    for (tree, every), count in zip(trees, options.folders, strict=True):
        folders = sorted(random.Random(options.seed).sample(every, min(count, len(every))))
        print(f"{len(folders)} of {len(every)} folders: {' '.join(folders)}", flush=True)
        started = time.monotonic()
        found = rows(tree.resolve(), folders, options.work / tree.resolve().name)
        with options.out.open("a") as file:
            file.writelines(json.dumps(row) + "\n" for row in found)
        report(found)
        print(f"  {time.monotonic() - started:.0f} s", flush=True)


if __name__ == "__main__":
    main()
