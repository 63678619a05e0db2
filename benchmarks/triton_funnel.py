"""Twenty Triton kernels of public trees, drawn by a seed: how far each gets, and why no further.

    python benchmarks/triton_funnel.py LIGER_KERNEL FLAGGEMS [--out docs/data/triton-funnel.jsonl]

Every `@triton.jit` function that is a kernel has the same chance, taken or not; folders of other
devices (`backend`, `backends`), tests and benchmarks are left out. Stages: taken by `kcurate extract`;
given a problem (known in `sources/problems`, or a draft); admitted, that is, it agrees with itself on
Triton's interpreter and its problem passes the controls. Rows hold names and outcomes, no code.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import random
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from kcurate.core import store
from kcurate.draft.admit import plain_candidate
from kcurate.extract.stage import ExtractConfig, run
from kcurate.judge.judging import Judge, JudgeConfig
from kcurate.records import Kernel, Outcome
from kcurate.suites.problems import find_problem

SEED, FROM_EACH = 21, 10
LEFT_OUT = {"backend", "backends", "tests", "test", "benchmark", "modules_tests", "examples"}
NO_PROBLEM = "no known problem, and drafts are for CUDA"


def drawn(tree: Path, workspace: Path) -> list[tuple[dict[str, str], Path | None]]:
    """The rows of a tree's kernels that were drawn, each with the folder of its record if it was taken."""
    run(ExtractConfig((tree,), workspace, compile=False))
    found = dict(_taken(tree, workspace))
    [listed] = (workspace / "runs").glob("*/files.jsonl")
    for line in map(json.loads, listed.read_text().splitlines()):
        for one in line.get("lost", ()):
            key = (line["path"], one["name"])
            found.setdefault(key, ({"reason": one["outcome"], "why": one["why"]}, None))
    keys = [key for key in sorted(found) if not LEFT_OUT & set(key[0].split("/"))]
    chosen = sorted(random.Random(SEED).sample(keys, FROM_EACH))
    return [
        ({"tree": tree.name, "path": path, "kernel": name, **found[path, name][0]}, found[path, name][1])
        for path, name in chosen
    ]


def _taken(tree: Path, workspace: Path) -> Iterator[tuple[tuple[str, str], tuple[dict[str, str], Path]]]:
    for path in (workspace / "kernels").rglob("kernel.json"):
        kernel = store.read_json(path, Kernel)
        if kernel.language == "triton":
            yield (kernel.span.path, kernel.name), ({}, path.parent)


def follow(row: dict[str, str], folder: Path | None, judge: Judge) -> dict[str, str]:
    """The row with the last stage that the kernel reached, and why no further."""
    if folder is None:
        return {**row, "reached": "file"}
    kernel, code = store.read_json(folder / "kernel.json", Kernel), store.read_kernel_code(folder)
    known = find_problem(
        kernel.source.suite, kernel.benchmark, {kernel.variant or "": code}, kernel.span.path
    )
    if known is None:
        return {**row, "reached": "taken", "reason": "no_problem", "why": NO_PROBLEM}
    verdict = judge.judge(plain_candidate(known, code, kernel.name))
    if verdict.outcome is not Outcome.CORRECT:
        return {**row, "reached": "problem", "reason": str(verdict.outcome), "why": verdict.detail}
    return {**row, "reached": "admitted"}


def table(rows: list[dict[str, str]]) -> str:
    """The rows for docs/triton.md."""
    lines = ["| tree | kernel | reached | why no further |", "|---|---|---|---|"]
    for row in rows:
        why = f"`{row['reason']}`: {row['why']}" if "reason" in row else ""
        lines.append(f"| {row['tree']} | `{row['kernel']}` | {row['reached']} | {why} |")
    return "\n".join(lines)


def main() -> None:
    """Extract, draw, follow, print, write."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("trees", type=Path, nargs="+")
    parser.add_argument("--out", type=Path)
    args = parser.parse_args()
    rows = []
    with (
        tempfile.TemporaryDirectory() as place,
        contextlib.closing(Judge(JudgeConfig(backend="emulator", timed=False))) as judge,
    ):
        for tree in args.trees:
            for row, folder in drawn(tree, Path(place) / tree.name):
                rows.append(follow(row, folder, judge))
                print(rows[-1], file=sys.stderr, flush=True)
    print(table(rows))
    if args.out:
        store.write_bytes(args.out, b"".join(json.dumps(row).encode() + b"\n" for row in rows))


if __name__ == "__main__":
    main()
