"""How fast the everyday is: checking, reading and building pairs, and deopt by rules with several jobs.

    python benchmarks/build.py [TREE ...] [--repeats 5] [--jobs 2] [--before CHECKOUT]

Every number stands against a peer or a floor of the same run, interleaved with it; ratios are medians of the
repeats.

- checks: the built-in pairs and their verdicts, `jsonschema` against `jsonschema-rs`, which the store uses
- build: `kcurate build --built-in`, against a process that only imports what it needs and parses the same
  files, and, with `--before`, against the same command of another checkout; the datasets must be the same
- reading: generated pairs, each with a verdict, and ten times as many; against `json.loads` of the same files
- deopt: the kernels that extract finds in each TREE (none: the built-in pairs), one job against several;
  "what the machine gave" is what as many processes gain that share nothing

The first three are CPU seconds (user and system), the last wall seconds.
"""

from __future__ import annotations

import argparse
import filecmp
import json
import multiprocessing
import os
import platform
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from kcurate.core import codec, resources, store
from kcurate.core.workspace import Workspace
from kcurate.deopt.stage import DeoptConfig
from kcurate.deopt.stage import run as deopt
from kcurate.extract.stage import ExtractConfig
from kcurate.extract.stage import run as extract
from kcurate.validate import stage as validating
from kcurate.verdicts import readable
from kcurate.verdicts.keys import verdict_key

TARGET_CHECKS, TARGET_BUILD, TARGET_READING, TARGET_JOBS = 50, 4, 11, 0.6
HERE = Path(__file__).resolve().parent.parent
# In memory where there is such a place: a slow disk would be what is measured.
MEMORY = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
FLOOR = """
import json, sys
from pathlib import Path
import cattrs, numpy, pyarrow.json, pyarrow.parquet, tree_sitter, typer, yaml
contents = [(path, path.read_bytes()) for path in sorted(Path(sys.argv[1]).rglob("*")) if path.is_file()]
[json.loads(content) for path, content in contents if path.suffix == ".json"]
"""


def cpu_s(call: Callable[[], object]) -> float:
    """CPU seconds of this process and of the children that it waited for."""
    start_s = time.process_time() + _children_s()
    call()
    return time.process_time() + _children_s() - start_s


def _children_s() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def wall_s(call: Callable[[], object]) -> float:
    start_s = time.perf_counter()
    call()
    return time.perf_counter() - start_s


def interleaved(
    repeats: int, timer: Callable[[Callable[[], object]], float], *calls: Callable[[], object]
) -> list[list[float]]:
    """The seconds of each call, in turns, so that all see the same machine."""
    taken = [[timer(call) for call in calls] for _ in range(repeats)]
    return [list(one) for one in zip(*taken, strict=True)]


def ratio(over: Sequence[float], under: Sequence[float]) -> float:
    return statistics.median(a / b for a, b in zip(over, under, strict=True))


def shown(name: str, seconds: Sequence[float]) -> None:
    spread = (max(seconds) - min(seconds)) / statistics.median(seconds)
    print(f"  {name:34} {statistics.median(seconds):9.4f} s  spread {100 * spread:.0f}%")


def checks(repeats: int) -> None:
    folder = resources.pairs_dir()
    for schema, pattern in (("pair", "*/*/pair.json"), ("verdict", "*/*/verdicts/*.json")):
        found = [json.loads(path.read_bytes()) for path in sorted(folder.glob(pattern))]
        peer, ours = store._explainer(schema), store._validator(schema)
        slow_s, fast_s = interleaved(
            repeats,
            cpu_s,
            lambda peer=peer, found=found: all(map(peer.is_valid, found)),
            lambda ours=ours, found=found: all(map(ours.is_valid, found)),
        )
        print(f"checks: {len(found)} records of {schema}.json")
        shown("jsonschema", slow_s)
        shown("jsonschema-rs", fast_s)
        print(f"  ratio {ratio(slow_s, fast_s):.0f} (target {TARGET_CHECKS})")


def kcurate(checkout: Path, *arguments: str) -> None:
    """Run a command of a checkout in a process."""
    environment = {**os.environ, "PYTHONPATH": str(checkout)}
    command = [sys.executable, "-m", "kcurate", *arguments]
    subprocess.run(command, cwd=checkout, env=environment, check=True, capture_output=True)


def building(repeats: int, before: Path | None, folder: Path) -> None:
    def build(checkout: Path, name: str) -> None:
        shutil.rmtree(folder / name, ignore_errors=True)
        kcurate(checkout, "build", "--built-in", "-w", str(folder / name))

    calls = [
        lambda: subprocess.run([sys.executable, "-c", FLOOR, str(resources.pairs_dir())], check=True),
        lambda: build(HERE, "now"),
        *([lambda: build(before, "before")] if before is not None else []),
    ]
    floor_s, now_s, *rest = interleaved(repeats, cpu_s, *calls)
    print("build --built-in: CPU seconds of the process")
    shown("imports, and parsing the files", floor_s)
    shown("kcurate build", now_s)
    print(f"  against that floor: {ratio(now_s, floor_s):.1f}")
    for before_s in rest:
        shown("kcurate build of --before", before_s)
        print(f"  ratio {ratio(before_s, now_s):.1f} (target {TARGET_BUILD})")
        print(
            f"  files that differ: {differences(folder / 'before/dataset', folder / 'now/dataset') or 'none'}"
        )


def differences(one: Path, other: Path) -> list[str]:
    names = {
        str(path.relative_to(root)) for root in (one, other) for path in root.rglob("*") if path.is_file()
    }
    _, different, missing = filecmp.cmpfiles(one, other, sorted(names), shallow=False)
    return [*different, *missing]


def make_pairs(workspace: Workspace, count: int) -> list[Path]:
    """The folders of so many pairs: the built-in ones, each with a function of its own, and a verdict."""
    built_in = store.find_candidates(resources.pairs_dir())
    models = [(store.read_candidate(folder), store.read_verdicts(folder)[0]) for folder in built_in]
    folders = []
    for number in range(count):
        model, verdict = models[number % len(models)]
        own = f"\n__device__ int number() {{ return {number}; }}\n"
        slow, fast = (replace(side, code=side.code + own) for side in (model.slow, model.fast))
        made = replace(model, id=f"generated/{number:06}", slow=slow, fast=fast)
        folders.append(workspace.pairs / made.id)
        store.write_candidate(folders[-1], made)
        key = verdict_key(made)
        line = json.dumps(codec.to_data(replace(verdict, candidate=made.id, key=key)))
        store.append_line(workspace.verdicts / "gpu.jsonl", line, durable=False)
    return folders


def bare(folders: Sequence[Path]) -> list[object]:
    return [
        [
            json.loads((folder / "pair.json").read_bytes()),
            *((folder / name).read_text() for name in ("slow.cu", "fast.cu")),
        ]
        for folder in folders
    ]


def reading(repeats: int, count: int, folder: Path) -> None:
    few, many = Workspace(folder / "few"), Workspace(folder / "many")
    made = {len(found): found for found in (make_pairs(few, count), make_pairs(many, 10 * count))}
    for what, read in (
        ("pairs (validate)", lambda size, _: validating.read(made[size])),
        ("pairs with verdicts (build, report)", judged),
    ):
        calls = [
            lambda read=read: [len(read(count, few)) for _ in range(10)],
            lambda read=read: read(10 * count, many),
            lambda: bare(made[10 * count]),
        ]
        few_s, many_s, floor_s = interleaved(repeats, cpu_s, *calls)
        print(f"reading {what}")
        shown(f"{count}, ten times over", few_s)
        shown(f"{10 * count}", many_s)
        shown(f"json.loads of those {10 * count}", floor_s)
        longer = 10 * ratio(many_s, few_s)
        print(f"  {10 * count} against {count}: {longer:.1f} times as long (target {TARGET_READING})")
        print(f"  against json.loads: {ratio(many_s, floor_s):.1f}")


@store.without_collector()
def judged(_: int, workspace: Workspace) -> Sequence[object]:
    return list(readable.judged(store.find_candidates(workspace.pairs), workspace))


def spin() -> int:
    return sum(i * i for i in range(10_000_000))


def at_once(jobs: int) -> None:
    processes = [multiprocessing.get_context("fork").Process(target=spin) for _ in range(jobs)]
    for process in processes:
        process.start()
    for process in processes:
        process.join()


def rewriting(repeats: int, jobs: int, trees: Sequence[Path], folder: Path) -> None:
    if trees:
        extract(ExtractConfig(tuple(trees), folder / "kernels", jobs=0, compile=False))
    roots = [str(folder / "kernels" / "kernels") if trees else str(resources.pairs_dir())]

    def run(count: int) -> None:
        shutil.rmtree(folder / f"{count}", ignore_errors=True)
        kcurate(HERE, "deopt", *roots, "--jobs", str(count), "-w", str(folder / f"{count}"))

    calls = [lambda: run(1), lambda: run(jobs), spin, lambda: at_once(jobs)]
    one_s, many_s, spin_s, spins_s = interleaved(repeats, wall_s, *calls)
    items = deopt(DeoptConfig(folder / "counted", (Path(roots[0]),), jobs=jobs)).items
    print(f"deopt by rules: wall seconds of the process; {items}")
    shown("1 job", one_s)
    shown(f"{jobs} jobs", many_s)
    print(f"  {jobs} jobs against 1: {ratio(many_s, one_s):.2f} of the time (target {TARGET_JOBS} with 2)")
    print(f"  what the machine gave: {ratio(spins_s, [jobs * s for s in spin_s]):.2f} of the time")
    print(f"  files that differ: {differences(folder / '1/pairs', folder / f'{jobs}/pairs') or 'none'}")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("trees", nargs="*", type=Path, metavar="TREE")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--pairs", type=int, default=1_000, help="how many are read, and ten times as many")
    parser.add_argument("--before", type=Path, help="another checkout, whose build is measured too")
    parser.add_argument("--only", choices=("checks", "build", "reading", "deopt"), help="one part")
    given = parser.parse_args()
    print(f"machine: {platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}")
    print(f"workspaces in {'memory (tmpfs)' if MEMORY else 'the temporary folder'}; {given.repeats} repeats")
    parts = {
        "checks": lambda folder: checks(given.repeats),
        "build": lambda folder: building(given.repeats, given.before and given.before.resolve(), folder),
        "reading": lambda folder: reading(given.repeats, given.pairs, folder),
        "deopt": lambda folder: rewriting(given.repeats, given.jobs, given.trees, folder),
    }
    for name, part in parts.items():
        if given.only in (None, name):
            with tempfile.TemporaryDirectory(dir=MEMORY) as folder:
                part(Path(folder))


if __name__ == "__main__":
    main()
