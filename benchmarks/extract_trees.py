"""How many kernels of source trees `kcurate extract` finds, and the share that does not compile by itself.

    python benchmarks/extract_trees.py TREE[=FLAG,...] ... --work DIR [--before CHECKOUT]
        [--no-compile TREE ...] [--out ROWS.jsonl]

Each tree is read as a generic one and compiled with NVRTC, by this version and by the one checked out at
CHECKOUT. `--out` gets a row for each kernel: what became of it before and now.
`corpus/RAJAPerf=-DRAJA_ENABLE_CUDA` gives this version a flag. A workspace in DIR that an earlier run left
is completed, and what it compiled is kept.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
from datetime import date
from pathlib import Path

HERE = Path(__file__).resolve().parent.parent


def extract(checkout: Path, tree: Path, work: Path, flags: list[str]) -> dict[str, int]:
    """Counts per outcome of a tree's kernels; empty if there are none."""
    command = [sys.executable, "-m", "kcurate", "extract", str(tree.resolve()), "--suite", "generic"]
    done = subprocess.run(
        [*command, "-w", str(work), "--json", *flags],
        cwd=checkout,
        env={**os.environ, "PYTHONPATH": str(checkout)},
        capture_output=True,
        text=True,
    )
    if done.returncode != 0:
        print(f"{tree.name}: {done.stderr.strip().splitlines()[-1][:200]}", file=sys.stderr)
        return {}
    return dict(json.loads(done.stdout)["counts"]["kernels"])


def shown(counts: dict[str, int]) -> tuple[str, str]:
    """The number of kernels, and the share that does not compile."""
    compiled, failed = counts.get("compiled", 0), counts.get("compile_error", 0)
    kernels = compiled + failed + counts.get("not_compiled", 0)
    return str(kernels), f"{failed} ({100 * failed / kernels:.0f}%)" if compiled + failed else ""


def fates(work: Path) -> dict[str, str]:
    """What became of each kernel of a workspace."""
    found = {}
    for path in sorted(work.glob("kernels/**/kernel.json")):
        record = json.loads(path.read_bytes())
        compiled = record.get("compiled")
        found[record["id"]] = (
            "not_compiled" if compiled is None else "compiled" if compiled["ok"] else "compile_error"
        )
    return found


def rows(before: Path, now: Path, tree: str) -> list[str]:
    """One row for each kernel that either version found."""
    was, is_now = fates(before), fates(now)
    return [
        json.dumps({"tree": tree, "kernel": name, "before": was.get(name), "now": is_now.get(name)}) + "\n"
        for name in sorted(was | is_now)
    ]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("trees", nargs="*", default=[])
    parser.add_argument("--no-compile", nargs="*", default=[], metavar="TREE", help="only count these")
    parser.add_argument("--before", type=Path, help="a checkout of the version to compare with")
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--out", type=Path, help="append rows to this file")
    options = parser.parse_args()
    print(f"{date.today()}, {platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}")
    print("| tree | kernels before | now | do not compile before | now |\n|---|---:|---:|---:|---:|")
    for given in (*options.trees, *options.no_compile):
        name, _, words = given.partition("=")
        flags = words.split(",") if words else []
        extra = ["--no-compile"] if given in options.no_compile else []
        tree = Path(name)
        was = "", ""
        places = options.work / f"before-{tree.name}", options.work / f"now-{tree.name}"
        if options.before is not None:
            was = shown(extract(options.before.resolve(), tree, places[0], extra))
        now = shown(extract(HERE, tree, places[1], [*flags, *extra]))
        print(f"| {tree.name} {' '.join(flags)} | {was[0]} | {now[0]} | {was[1]} | {now[1]} |", flush=True)
        if options.out is not None:
            with options.out.open("a") as file:
                file.writelines(rows(*places, tree.name))


if __name__ == "__main__":
    main()
