"""How many kernels of source trees get an admitted problem from their text alone, on the emulator.

    python benchmarks/drafts_trees.py TREE ... --work DIR --out ROWS.jsonl [--checkout DIR]
        [--kernels 8] [--limit 150] [--seed 7]

Of each tree so many kernels are drawn by their ids and the seed, and each is drafted in a process of its own
with a time limit in seconds of wall-clock time. `--checkout`: by the version checked out there, which also
reads the trees if the folder in DIR has no workspace yet. One row a kernel; rows in the file are kept.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent.parent
LIMIT = "time limit"


def kcurate(checkout: Path, words: list[str], limit_s: float | None) -> str | None:
    """What a command prints on stderr; None: it took too long, and was ended with all its workers."""
    process = subprocess.Popen(
        [sys.executable, "-m", "kcurate", *words],
        env={**os.environ, "PYTHONPATH": str(checkout)},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        return process.communicate(timeout=limit_s)[1]
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        return None


def drawn(workspace: Path, count: int, seed: int) -> list[str]:
    """So many ids of a workspace's kernels."""
    kernels = workspace / "kernels"
    ids = [path.parent.relative_to(kernels).as_posix() for path in kernels.rglob("kernel.json")]
    return sorted(ids, key=lambda name: hashlib.sha256(f"{seed} {name}".encode()).digest())[:count]


def drafted(checkout: Path, tree: Path, workspace: Path, kernel: str, limit_s: float) -> dict[str, object]:
    """The row of one kernel."""
    folder, started = workspace / "kernels" / kernel, time.monotonic()
    for name in ("problem.json", "problem.toml"):
        (folder / name).unlink(missing_ok=True)
    words = ["problem", "draft", "-w", str(workspace), "--tree", str(tree), "--again", "--fail-on", "none"]
    printed = kcurate(checkout, [*words, kernel], limit_s)
    lines = [line for line in (printed or "").splitlines() if line.startswith(f"{kernel}: ")]
    why = lines[0].removeprefix(f"{kernel}: ").split(": ")[0] if lines else ""
    return {
        "tree": tree.name,
        "kernel": kernel,
        "admitted": (folder / "problem.json").exists(),
        "why": LIMIT if printed is None else why,
        "seconds": round(time.monotonic() - started, 1),
    }


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("trees", nargs="+", type=Path)
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--checkout", type=Path, default=HERE)
    parser.add_argument("--kernels", type=int, default=8)
    parser.add_argument("--limit", type=float, default=150.0)
    parser.add_argument("--seed", type=int, default=7)
    options = parser.parse_args()
    kept = options.out.read_text().splitlines() if options.out.exists() else []
    rows = {row["kernel"]: row for row in map(json.loads, kept)}
    for tree in (tree.resolve() for tree in options.trees):
        workspace = options.work / tree.name
        if not workspace.exists():
            words = ["extract", str(tree), "--suite", "generic", "-w", str(workspace), "--fail-on", "none"]
            kcurate(options.checkout, words, None)
        kernels = drawn(workspace, options.kernels, options.seed)
        for kernel in kernels:
            if kernel not in rows:
                rows[kernel] = drafted(options.checkout, tree, workspace, kernel, options.limit)
                with options.out.open("a") as file:
                    file.write(json.dumps(rows[kernel]) + "\n")
        print(tree.name, sum(bool(rows[kernel]["admitted"]) for kernel in kernels), "of", len(kernels))


if __name__ == "__main__":
    main()
