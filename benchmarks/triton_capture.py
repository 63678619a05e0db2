"""Public Triton kernels from their file to proved pairs, by what programs that run them launch.

    python benchmarks/triton_capture.py --tree Liger-Kernel --tree FlagGems --out ROWS.jsonl --keep DIR
        [--drivers rope,jsd] [--jobs 8] [--budget-s 100] [--stage record]
    python benchmarks/deopt_rules.py --gpu 0 --pairs DIR/pairs --out JUDGED --minutes 1
    python benchmarks/triton_capture.py --out ROWS.jsonl --keep DIR --judged JUDGED/verdicts.jsonl

Each driver (`triton_drivers.py`) imports a tree and runs under `kcurate capture`; what it launched is
drafted, and goes through the rules of deopt. A row a driver, and one a kernel that it launched, are appended
at once; run again, it goes on where it stopped. `--keep` holds each workspace, so that another machine can
go on from records. `--judged` prints the funnel of the kernels of `docs/data/triton-funnel.jsonl` and of all
that were launched, with what the verdicts say. Rows hold names and outcomes, no code.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import re
import shutil
import subprocess
import sys
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from kcurate.core import store  # noqa: E402
from kcurate.records import Candidate, Capture, Kernel, KnownProblem, Verdict  # noqa: E402

DRIVERS = Path(__file__).with_name("triton_drivers.py")
KCURATE = (sys.executable, "-m", "kcurate")
DRAWN = ROOT / "docs" / "data" / "triton-funnel.jsonl"
RUN_S, DRAFT_S = 60.0, 90.0
Row = dict[str, Any]


def call(words: list[str], limit_s: float, paths: str = "") -> tuple[int | None, str]:
    """Exit code (None: ran out of time) and what was written to stderr."""
    found = os.pathsep.join(filter(None, (paths, str(ROOT), os.environ.get("PYTHONPATH"))))
    try:
        done = subprocess.run(
            words,
            env={**os.environ, "PYTHONPATH": found},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            timeout=limit_s,
            check=False,
        )
    except subprocess.TimeoutExpired as late:
        return None, (late.stderr or b"").decode("utf-8", "replace")
    return done.returncode, done.stderr.decode("utf-8", "replace")


def drivers(trees: list[Path]) -> dict[str, Path]:
    """Each driver with the tree whose package it names."""
    text = DRIVERS.read_text()
    found = {}
    for name, body in re.findall(r"^def (\w+)\(\) -> None:\n((?:    .*\n|\n)+)", text, re.MULTILINE):
        package = "flag_gems" if "GEMS" in body else "liger_kernel"
        tree = next((one for one in trees if (one / "src" / package).is_dir()), None)
        if tree is not None:
            found[name] = tree
    return found


def extracted(tree: Path, keep: Path) -> Path:
    """The kernels of a tree."""
    work = keep / tree.name
    if not (work / "kernels").is_dir():
        call([*KCURATE, "extract", str(tree), "-w", str(work), "--no-compile"], 4 * DRAFT_S)
    return work / "kernels"


def records(work: Path) -> list[Capture]:
    return [store.read_json(path, Capture) for path in sorted(work.glob("captures/*/*.json"))]


def recorded(name: str, tree: Path, keep: Path) -> Row:
    """A driver run under `kcurate capture`; its workspace keeps the kernels that were launched."""
    work = keep / "drivers" / name
    row: Row = {"driver": name, "tree": tree.name, "machine": platform.machine()}
    shutil.rmtree(work, ignore_errors=True)
    shutil.copytree(keep / tree.name / "kernels", work / "kernels")
    started = time.monotonic()
    program = [sys.executable, str(DRIVERS), name]
    words = [*KCURATE, "capture", "-w", str(work), "--recorder", "triton", "--kernel", ""]
    limits = ["--per-kernel", "2", "--timeout", str(RUN_S)]
    code, text = call([*words, *limits, "--", *program], 2 * RUN_S, str(tree / "src"))
    found = records(work)
    row |= {"run_s": round(time.monotonic() - started, 1), "exit_code": code}
    row |= {"device": found[0].device if found else None, "outcome": "launched" if found else "no_launches"}
    row |= {"why": last(text)} if code else {}
    for path in sorted(work.rglob("kernel.json")):
        kernel = store.read_json(path, Kernel)
        if not any(
            one.kernel == kernel.name and (one.file or "").endswith(kernel.span.path) for one in found
        ):
            shutil.rmtree(path.parent)
    return row


def drafted(row: Row, keep: Path, tree: Path) -> list[Row]:
    """A row for each kernel that a driver launched."""
    work = keep / "drivers" / row["driver"]
    started = time.monotonic()
    code, text = call([*KCURATE, "problem", "draft", "-w", str(work), "--known", "--again"], DRAFT_S)
    call([*KCURATE, "deopt", "-w", str(work)], DRAFT_S)
    pairs = keep / "pairs" / row["driver"]
    shutil.rmtree(pairs, ignore_errors=True)
    if (work / "pairs").is_dir():
        shutil.copytree(work / "pairs", pairs)
    made = Counter(pair.origin.kernels[0] for pair in candidates(pairs))
    known = {
        kernel.name: (kernel, path.parent)
        for path in work.rglob("kernel.json")
        for kernel in [store.read_json(path, Kernel)]
    }
    found = []
    for one in records(work):
        own = {"driver": row["driver"], "tree": row["tree"], "kernel": one.kernel, "device": one.device}
        own |= {"types": list(one.params), "forms": len(one.launches)}
        if one.kernel not in known:
            place = (one.file or "").partition(f"/{row['tree']}/")[2]
            inside = bool(place)
            why = lost(keep / row["tree"], place, one.kernel) if inside else "the file is not the tree's"
            found.append({**own, "path": place, "outcome": "not_taken", "why": why})
            continue
        kernel, folder = known[one.kernel]
        said = re.search(rf"^{re.escape(kernel.id)}: (.*)$", text, re.MULTILINE)
        own |= {"path": kernel.span.path, "why": said[1][:200] if said else last(text)}
        if (folder / "problem.json").is_file():
            problem = store.read_json(folder / "problem.json", KnownProblem).problem
            own["outcome"] = "single_size" if problem.single_size else "admitted"
        else:
            own["outcome"] = "late" if code is None else own["why"].partition(":")[0]
        found.append({**own, "candidates": made[kernel.id], "draft_s": round(time.monotonic() - started, 1)})
    return list({(one["kernel"], one["path"]): one for one in found}.values())


def candidates(root: Path) -> list[Candidate]:
    return [store.read_candidate(path) for path in store.find_candidates(root)] if root.is_dir() else []


def lost(work: Path, path: str, name: str) -> str:
    """Why extract did not take a function."""
    for file in work.glob("runs/*/files.jsonl"):
        for line in map(json.loads, file.read_text().splitlines()):
            for one in line.get("lost", ()):
                if line["path"] == path and one["name"] == name:
                    return f"{one['outcome']}: {one['why']}"
    return "it is not in the tree's files"


def last(text: str) -> str:
    """The last line that says something."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return next((line for line in reversed(lines) if "rror" in line), lines[-1] if lines else "")[:200]


def run(given: argparse.Namespace) -> None:
    """Record, draft, append rows."""
    until = time.monotonic() + given.budget_s
    chosen = drivers(given.tree)
    names = given.drivers.split(",") if given.drivers else list(chosen)
    rows = read_rows(given.out)
    for tree in dict.fromkeys(chosen[name] for name in names):
        extracted(tree, given.keep)
    ran = {row["driver"]: row for row in rows if "kernel" not in row}
    done = {row["driver"] for row in rows if "kernel" in row}
    done -= {row["driver"] for row in rows if row["outcome"] == "late"}

    def one(name: str) -> None:
        if time.monotonic() > until:
            return
        row = ran.get(name)
        if row is None or (row["outcome"] != "launched" and given.again):
            row = recorded(name, chosen[name], given.keep)
            append(given.out, row)
        if given.stage != "record" and row["outcome"] == "launched" and name not in done:
            for more in drafted(row, given.keep, chosen[name]):
                append(given.out, more)

    with ThreadPoolExecutor(given.jobs) as pool:
        list(pool.map(one, names))


def read_rows(path: Path) -> list[Row]:
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def append(path: Path, row: Row) -> None:
    if "why" in row:
        row["why"] = re.sub(r"(?<!\w)/\S*/", "", row["why"])  # folders of this machine
    store.append_line(path, json.dumps(row))
    print({key: row[key] for key in ("driver", "kernel", "outcome", "why") if key in row}, flush=True)


def report(rows: list[Row], judged: Path | None, pairs: Path) -> None:
    """The funnel of the drawn kernels, and of all that were launched."""
    confirmed: dict[str, float] = {}
    if judged is not None:
        kernels = {pair.id: pair.origin.kernels[0] for pair in candidates(pairs)}
        for verdict in store.read_jsonl(judged, Verdict):
            if verdict.speedup is not None and verdict.outcome.value == "confirmed":
                kernel = kernels.get(verdict.candidate, "")
                confirmed[kernel] = max(confirmed.get(kernel, 0.0), verdict.speedup.ratio)
    best = {(row["kernel"], row["path"]): row for row in rows if "kernel" in row}
    print("| tree | kernel | reached | why no further |\n|---|---|---|---|")
    for drawn in read_rows(DRAWN):
        row = next(
            (one for (name, path), one in best.items() if name == drawn["kernel"] and drawn["path"] in path),
            None,
        )
        if row is None:
            reached, why = "file", f"not launched; {drawn.get('why', 'no driver')}"
        else:
            proved = next(
                (ratio for kernel, ratio in confirmed.items() if kernel.endswith(f"/{row['kernel']}")), None
            )
            reached, why = (f"confirmed, {proved:.2f}x", "") if proved else (row["outcome"], row["why"])
        print(f"| {drawn['tree']} | `{drawn['kernel']}` | {reached} | {why} |")
    outcomes = dict(Counter(row["outcome"] for row in best.values()).most_common())
    print(f"\n{len(best)} launched kernels: {outcomes}; {len(confirmed)} with a confirmed pair")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--tree", type=lambda text: Path(text).resolve(), action="append", default=[])
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--keep", type=lambda text: Path(text).resolve(), required=True)
    parser.add_argument("--drivers", default="")
    parser.add_argument("--jobs", type=int, default=8)
    parser.add_argument("--budget-s", type=float, default=100.0)
    parser.add_argument("--stage", choices=("record",), help="no drafts yet")
    parser.add_argument("--again", action="store_true", help="run drivers again that launched nothing")
    parser.add_argument("--judged", type=Path)
    given = parser.parse_args()
    if given.tree:
        run(given)
    report(read_rows(given.out), given.judged, given.keep / "pairs")


if __name__ == "__main__":
    main()
