"""What a file costs in `kcurate extract --from`, beside a plain tree-sitter parse of the same shards.

    python benchmarks/scale.py shards OUT N TREE...     N files of real trees, identifiers renamed, as shards
    python benchmarks/scale.py measure SHARDS ROWS.jsonl  one line: seconds, peak memory, rows a second
    python benchmarks/scale.py measure SHARDS ROWS.jsonl --beside   the parse while the command runs
    python benchmarks/scale.py plan --gpus 100 --gpu-hour 2   hours and dollars of a corpus (docs/scale.md)

A shard has 1,000 rows; a copy of a tree has identifiers of its own, so copies are neither equal nor near
duplicates. Nothing of a tree belongs into the repository.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

MEASURED = Path(__file__).parents[1] / "docs/data/cpu/extract-shards.jsonl"
SUFFIXES = {".cu", ".cuh", ".h", ".hpp", ".cpp", ".cc", ".c"}
ROWS = 1000
IDENTIFIER = re.compile(rb"\b[A-Za-z_]\w{2,}\b")
DECLARED = re.compile(
    rb"\b(?:int|float|double|void|auto|unsigned|size_t|char|bool|T|long)\b[\s*&]+(?:__restrict__\s+)?(\w{2,})"
)
KEPT = re.compile(rb"__\w+|main|operator")


def renamed(data: bytes, salt: str) -> bytes:
    """The text with the names that it declares renamed, all alike in one copy of a tree."""
    names = {name for name in DECLARED.findall(data) if not KEPT.fullmatch(name)}
    return IDENTIFIER.sub(lambda word: word[0] + salt.encode() if word[0] in names else word[0], data)


def make(out: Path, count: int, trees: list[Path]) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    files = [
        (tree, path, path.read_bytes())
        for tree in trees
        for path in sorted(tree.rglob("*"))
        if path.suffix in SUFFIXES
        and path.is_file()
        and not path.is_symlink()
        and path.stat().st_size < 1_000_000
    ]
    groups: dict[tuple[Path, Path], list[tuple[Path, bytes]]] = {}
    for tree, path, data in files:  # a repository: a folder of programs, at most two levels down
        inside = path.relative_to(tree).parts[:-1][:3]
        groups.setdefault((tree, tree.joinpath(*inside)), []).append((path, data))
    chance, order = random.Random(1), list(groups)
    out.mkdir(parents=True, exist_ok=True)
    waiting: list[dict[str, Any]] = []
    written = copy = 0
    while written < count:
        chance.shuffle(order)
        for key in order:
            for path, data in groups[key]:
                name = f"{key[0].name}/{key[1].relative_to(key[0]).as_posix().replace('/', '-')}-{copy}"
                row = {"content": renamed(data, f"_{copy:x}").decode("utf-8", "replace"), "repository": name}
                waiting.append(
                    {**row, "path": path.relative_to(key[0]).as_posix(), "revision": None, "licence": "MIT"}
                )
        copy += 1
        chance.shuffle(waiting)  # rows of a repository lie in several shards
        while len(waiting) >= ROWS or (waiting and written + len(waiting) >= count):
            part, waiting = waiting[: min(ROWS, count - written)], waiting[ROWS:]
            pq.write_table(
                pa.Table.from_pylist(part), out / f"{written // ROWS:05}.parquet", compression="zstd"
            )
            written += len(part)
            if written >= count:
                return


def plain_parse(shards: Path) -> tuple[float, int, int]:
    """CPU seconds, rows and bytes of a parse of every row with tree-sitter in one process."""
    import pyarrow.parquet as pq
    import tree_sitter
    import tree_sitter_cuda

    parser = tree_sitter.Parser(tree_sitter.Language(tree_sitter_cuda.language()))
    begun, rows, size = time.process_time(), 0, 0
    for path in sorted(shards.glob("*.parquet")):
        for batch in pq.ParquetFile(path).iter_batches(256, columns=["content"]):
            for content in batch.column(0):
                data = content.as_py().encode()
                parser.parse(data)
                rows, size = rows + 1, size + len(data)
    return time.process_time() - begun, rows, size


def observe(root: int, ticks: dict[int, int]) -> int:
    """Resident bytes of a process and all below it, pages of files left out; `ticks`: CPU time of each."""
    total, waiting = 0, [root]
    while waiting:
        pid = waiting.pop()
        try:
            waiting += map(int, Path(f"/proc/{pid}/task/{pid}/children").read_text().split())
            status = Path(f"/proc/{pid}/status").read_text()
            total += 1024 * sum(map(int, re.findall(r"(?:RssAnon|RssShmem):\s+(\d+)", status)))
            fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
            ticks[pid] = int(fields[11]) + int(fields[12])
        except (OSError, ProcessLookupError):
            continue
    return total


def measure(shards: Path, out: Path, jobs: int, beside: bool) -> None:
    workspace = Path(tempfile.mkdtemp(prefix="kcurate-scale-", dir=shards.parent))
    command = [
        sys.executable,
        "-m",
        "kcurate",
        "extract",
        "--from",
        str(shards),
        "--no-compile",
        "-j",
        str(jobs),
    ]
    pool = ProcessPoolExecutor(1)
    parsing = pool.submit(plain_parse, shards) if beside else None
    begun = time.monotonic()
    process = subprocess.Popen([*command, "-w", str(workspace), "--json"], stdout=subprocess.PIPE)
    peak, ticks, before = [0], dict[int, int](), shutil.disk_usage("/dev/shm").used

    def watch() -> None:
        while process.poll() is None:
            in_memory = shutil.disk_usage("/dev/shm").used - before  # trees of rows, and others'
            peak[0] = max(peak[0], observe(process.pid, ticks) + in_memory)
            time.sleep(0.2)

    watcher = threading.Thread(target=watch)
    watcher.start()
    text = process.communicate()[0]
    watcher.join()
    wall_s = time.monotonic() - begun
    cpu_s = sum(ticks.values()) / os.sysconf("SC_CLK_TCK")  # workers are children of a server of forks
    counts = json.loads(text)["counts"]
    parse_s, rows, size = (parsing or pool.submit(plain_parse, shards)).result()
    line = {
        "rows": rows, "bytes": size, "wall_s": round(wall_s, 1), "cpu_s": round(cpu_s, 1),
        "ms_a_row_cpu": round(1000 * cpu_s / rows, 3), "peak_mb": peak[0] >> 20, "jobs": jobs,
        "parse_cpu_s": round(parse_s, 1), "ratio_to_plain_parse": round(parse_s / cpu_s, 3),
        "load": os.getloadavg()[0], "beside": beside,
        "counts": {name: counts[name] for name in ("files", "kernels")},
    }  # fmt: skip
    with out.open("a") as file:
        file.write(json.dumps(line) + "\n")
    print(json.dumps(line))
    shutil.rmtree(workspace)


class Step(NamedTuple):
    """A step of the plan: units that it has of each unit of the step before, seconds that one unit takes."""

    what: str
    share: float
    core_s: float = 0.0
    gpu_s: float = 0.0


def steps() -> tuple[tuple[Step, ...], tuple[Step, ...]]:
    """What becomes of a file, and of a minted problem; docs/scale.md says where each figure is from."""
    rows = [json.loads(line) for line in MEASURED.read_text().splitlines()]
    most = max(rows, key=lambda row: int(row["rows"]))
    kernels = sum(most["counts"]["kernels"].values()) / most["rows"]
    of_files = (
        Step("extract files", 1, most["ms_a_row_cpu"] / 1000),
        Step("compile kernels", kernels, 0.22),
        Step("draft problems", 0.86, 177 / 42),
        Step("judge slow sides by rule", 8 / 64 * 1500 / 557, gpu_s=1 / 1.3),
    )
    return of_files, (
        Step("mint problems", 1, 43 * 32 / 700),
        Step("judge answers", 5163 / 3215, gpu_s=2 / 5.0),
    )


def plan(count: int, gpus: int, cores: int, gpu_hour: float, core_hour: float) -> str:
    """A table: core and GPU hours of `count` files and as many minted problems, wall hours, dollars."""
    lines = ["| step | units | a unit | core hours | GPU hours | hours | dollars |", "|---|" + "---:|" * 6]
    total = [0.0] * 4
    for chain in steps():
        units = float(count)
        for step in chain:
            units *= step.share
            core_h, gpu_h = units * step.core_s / 3600, units * step.gpu_s / 3600
            costs = [core_h, gpu_h, core_h / cores + gpu_h / gpus, core_h * core_hour + gpu_h * gpu_hour]
            total = [sum(pair) for pair in zip(total, costs, strict=True)]
            unit = f"{step.gpu_s:.2g} GPU s" if step.gpu_s else f"{step.core_s:.2g} core s"
            lines.append(f"| {step.what} | {units:,.0f} | {unit} | " + _costs(costs))
    return "\n".join([*lines, "| together | | | " + _costs(total)])


def _costs(costs: list[float]) -> str:
    core_h, gpu_h, wall_h, dollars = costs
    return f"{core_h:,.0f} | {gpu_h:,.0f} | {wall_h:.2f} | {dollars:,.0f} |"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    commands = parser.add_subparsers(dest="command", required=True)
    making = commands.add_parser("shards")
    making.add_argument("out", type=Path)
    making.add_argument("count", type=int)
    making.add_argument("trees", type=Path, nargs="+")
    measuring = commands.add_parser("measure")
    measuring.add_argument("shards", type=Path)
    measuring.add_argument("out", type=Path)
    measuring.add_argument("--jobs", type=int, default=2)
    measuring.add_argument("--beside", action="store_true", help="on a busy machine, both with its load")
    planning = commands.add_parser("plan")
    planning.add_argument("--count", type=int, default=10_000_000)
    planning.add_argument("--gpus", type=int, default=1000)
    planning.add_argument("--cores", type=int, default=16_000)
    planning.add_argument("--gpu-hour", type=float, default=3.0, help="dollars")
    planning.add_argument("--core-hour", type=float, default=0.04, help="dollars")
    given = parser.parse_args()
    if given.command == "shards":
        make(given.out, given.count, given.trees)
    elif given.command == "measure":
        measure(given.shards, given.out, given.jobs, given.beside)
    else:
        print(plan(given.count, given.gpus, given.cores, given.gpu_hour, given.core_hour))


if __name__ == "__main__":
    main()
