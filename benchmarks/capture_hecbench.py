"""From programs that run to admitted problems: of HeCBench or other trees, by seed.

    python benchmarks/capture_hecbench.py --tree HeCBench/src --out ROWS.jsonl --keep DIR [--count 250]
        [--seed 1] [--part 1/4] [--recorder auto] [--arch sm_90] [--jobs 4] [--budget-s 540]
        [--stage record|draft|overhead] [--pairs DIR] [--run-s 60] [--draft-s 300]
    python benchmarks/capture_hecbench.py --gather NAME=TREE ... --tree PROGRAMS

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
import signal
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
from kcurate.cuda_source.text.demangled_names import Demangled

ROOT = Path(__file__).resolve().parent.parent
KCURATE = [sys.executable, "-m", "kcurate"]
BUILD_S, RUN_S, DRAFT_S = 180, 60, 300
OPENS = re.compile(
    r"\bfopen\w*\(|\bifstream\b|sdkFindFilePath|sdkLoad|"
    r"#\s*include\s*[<\"](?:mpi|nccl|cudnn|nvrtc|torch|cutlass|GL/|glut|helper_gl|EGL|FreeImage|npp|cudaD3D|d3d)"
)
DRIVER = re.compile(r"\bcu(?:Init|Device|Ctx|Module|Launch|Mem)[A-Z]\w*\(|\bcuInit\(")
MAIN = re.compile(r"\bmain\s*\(")
INCLUDED = re.compile(r"^\s*#\s*include\s*[<\"]([^>\"]+)[>\"]", re.MULTILINE)
LIBRARIES = ("cublasLt", "cublas", "curand", "cufft", "cusparse", "cusolver")
SOURCES = (".cu", ".cuh", ".c", ".h", ".hpp", ".cpp", ".inc", ".inl")
CHOSEN = re.compile(r"\b(\w+)\s*=\s*atoi\(argv\[1\]\)")
CASE = re.compile(r"\bcase\s+(\d+)\s*:")
DEFINED = re.compile(r"__global__([^;{}]{0,400})")


def drawn(tree: Path, count: int, seed: int, part: str) -> list[str]:
    """The programs of one part, by folder name."""
    every = sorted(path.parent.name for path in tree.glob("*-cuda/Makefile"))
    chosen = sorted(random.Random(seed).sample(every, min(count, len(every))))
    number, parts = map(int, part.split("/"))
    return chosen[number - 1 :: parts]


def call(words: list[str], folder: Path, limit_s: float, **more: str) -> tuple[int | None, str]:
    """Exit code (None: ran out of time, and was ended with its children) and what was written to stderr."""
    roots = os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH"))))
    with subprocess.Popen(
        words,
        cwd=folder,
        env={**os.environ, "PYTHONPATH": roots, **more},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        start_new_session=True,
    ) as process:
        try:
            _, text = process.communicate(timeout=limit_s)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            return None, process.communicate()[1].decode("utf-8", "replace")
    return process.returncode, text.decode("utf-8", "replace")


def flags(recorder: str, folder: Path) -> dict[str, str]:
    """What nvcc needs so that the recorder sees the program."""
    if recorder == "cupti":
        building.injection()  # compiled once, and not in the time of the first program
        return {}
    library = next(building.stand_in().glob("libcudart.so.*"))
    link = folder / "libcudart.so"
    if not link.exists():
        link.symlink_to(library)
    return {"NVCC_APPEND_FLAGS": f"-cudart shared -L{folder}"}


def gathered(suite: str, tree: Path, out: Path) -> None:
    """A folder with a Makefile for each program of a tree."""
    files = {path: path.read_text("utf-8", "replace") for path in tree.rglob("*") if path.suffix in SOURCES}
    mains = sorted(path for path in files if path.suffix in (".cu", ".cpp") and MAIN.search(files[path]))
    for main_file in mains:
        folder = out / f"{suite}-{main_file.stem}-cuda"
        beside = [
            path
            for path in sorted(files)
            if path.parent == main_file.parent and path.suffix in (".cu", ".cpp") and path not in mains
        ]
        alone = sum(path.parent == main_file.parent for path in mains) > 1
        needed, roots = headers([main_file, *([] if alone else beside)], files)
        units = [main_file, *(path for path in beside if not alone and path not in needed)]
        text = "".join(files[path] for path in {*units, *needed})
        if folder.exists() or "__global__" not in text or any(OPENS.search(files[path]) for path in units):
            continue
        for path in {*units, *needed}:
            (folder / path.relative_to(tree)).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, folder / path.relative_to(tree))
        words = [f"-I{root.relative_to(tree)}" for root in sorted(roots)]
        words += [str(path.relative_to(tree)) for path in units]
        words += [f"-l{name}" for name in LIBRARIES if f"{name}.h" in text or f"{name}_v2.h" in text]
        words += ["-lcuda"] * bool(DRIVER.search(text)) + ["-Xcompiler -fopenmp"] * ("omp.h" in text)
        options = "-arch=$(ARCH) -O3 -w --extended-lambda --expt-relaxed-constexpr"
        options += " -DcudaThreadSynchronize=cudaDeviceSynchronize"  # CUDA 13 lacks the old name
        (folder / "Makefile").write_text(
            f"program:\n\tnvcc {options} -o $@ {' '.join(words)}\nrun: program\n{runs(files[main_file])}"
        )


def runs(text: str) -> str:
    """The lines of a Makefile that run a program: with every number if its first argument chooses a case."""
    chosen = CHOSEN.search(text)
    numbers = sorted(set(map(int, CASE.findall(text)))) if chosen else []
    if not numbers or not re.search(rf"\bswitch\s*\({chosen[1]}\)", text):
        return "\t./program\n"
    return "".join(f"\t-./program {number}\n" for number in numbers)


def headers(units: list[Path], files: dict[Path, str]) -> tuple[set[Path], set[Path]]:
    """The files of the tree that these include, and the folders where the compiler has to look."""
    found: set[Path] = set()
    roots: set[Path] = set()
    left = list(units)
    while left:
        path = left.pop()
        for name in INCLUDED.findall(files[path]):
            near = Path(os.path.normpath(path.parent / name))
            far = (one for one in sorted(files) if str(one).endswith(f"/{name}"))
            one = near if near in files else next(far, None)
            if one is not None and one != near:
                roots.add(Path(str(one)[: -len(name) - 1]))
            if one is not None and one not in found:
                found.add(one)
                left.append(one)
    return found, roots


def built(
    tree: Path, name: str, given: argparse.Namespace, more: dict[str, str], home: Path
) -> dict[str, Any]:
    """A row with what became of building one program below `home`, with a workspace of its kernels."""
    row: dict[str, Any] = {"program": name, "recorder": given.recorder, "cpu": platform.machine()}
    home.mkdir(parents=True)
    for other in tree.iterdir():  # Makefiles look into their neighbours
        if other.name != name:
            (home / other.name).symlink_to(other.resolve())
    folder = home / name
    shutil.copytree(tree / name, folder, symlinks=True)
    started = time.monotonic()
    code, text = call(["make", f"ARCH={given.arch}"], folder, BUILD_S, **more)
    row["build_s"] = round(time.monotonic() - started, 1)
    if code != 0:
        return row | {"outcome": "not_built", "why": last(text)}
    call([*KCURATE, "extract", str(folder), "-w", str(home.parent / "work"), "--no-compile"], folder, DRAFT_S)
    return row | {"outcome": "built"}


def captured(
    folder: Path, work: Path, given: argparse.Namespace, more: dict[str, str]
) -> tuple[int | None, str]:
    """What `kcurate capture` on a program that was built ended with."""
    words = [*KCURATE, "capture", "-w", str(work)]
    words += ["--recorder", given.recorder, "--timeout", str(given.run_s)]
    return call([*words, "--", "make", "run", f"ARCH={given.arch}"], folder, 2 * given.run_s, **more)


def recorded(tree: Path, name: str, given: argparse.Namespace, more: dict[str, str]) -> dict[str, Any]:
    """One program built and run; its workspace goes to the folder of kept ones."""
    with tempfile.TemporaryDirectory(prefix="hecbench-") as temporary:
        home, work = Path(temporary) / "src", Path(temporary) / "work"
        row = built(tree, name, given, more, home)
        if row["outcome"] != "built":
            return row
        started = time.monotonic()
        code, text = captured(home / name, work, given, more)
        row |= {"run_s": round(time.monotonic() - started, 1), "exit_code": code}
        records = read(work)
        if not records:
            return row | {"outcome": "no_launches", "why": last(text)}
        row |= {"device": records[0]["device"], "outcome": "launched"}
        with tarfile.open(given.keep / f"{name}.tar", "w") as file:
            file.add(work, "work", filter=lambda one: None if one.name.endswith("/data") else one)
    return row


def overheads(names: list[str], given: argparse.Namespace, more: dict[str, str], until_s: float) -> None:
    """Rows of programs that run alone, with the seconds bare and recorded."""
    with tempfile.TemporaryDirectory(prefix="hecbench-") as temporary, given.out.open("a") as file:
        homes = {name: Path(temporary) / name / "src" for name in names}
        with ThreadPoolExecutor(given.jobs) as pool:
            rows = list(pool.map(lambda name: built(given.tree, name, given, more, homes[name]), names))
        for row in rows:
            home = homes[row["program"]]
            if row["outcome"] == "built" and time.monotonic() > until_s:
                continue
            if row["outcome"] != "built":
                file.write(json.dumps(row) + "\n")
                continue
            started = time.monotonic()
            code, _ = call(["make", "run", f"ARCH={given.arch}"], home / row["program"], given.run_s, **more)
            row |= {"bare_s": round(time.monotonic() - started, 2), "bare_exit_code": code}
            if code is None:
                row["outcome"] = "timeout"
            else:
                started = time.monotonic()
                code, _ = captured(home / row["program"], home.parent / "work", given, more)
                seconds = round(time.monotonic() - started, 2)
                row |= {"captured_s": seconds, "exit_code": code, "outcome": "timed"}
                row["device"] = next((one["device"] for one in read(home.parent / "work")), None)
            file.write(json.dumps(row) + "\n")
            file.flush()
            print(row, flush=True)
    timed = [row for row in rows if row["outcome"] == "timed" and row["device"]]
    bare, with_it = (sum(row[key] for row in timed) for key in ("bare_s", "captured_s"))
    short = [row["captured_s"] - row["bare_s"] for row in timed if row["bare_s"] < 4]
    print(f"{len(timed)} programs that launched: {bare:.1f} s bare, {with_it:.1f} s recorded")
    print(f"most added to a program under 4 s: {max(short, default=0):.2f} s")


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
    parser.add_argument("--tree", type=lambda text: Path(text).resolve(), required=True)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--keep", type=Path)
    parser.add_argument("--stage", choices=("record", "draft", "overhead"))
    parser.add_argument("--gather", nargs="+", default=())
    parser.add_argument("--run-s", type=float, default=RUN_S)
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
    if given.gather:
        for one in given.gather:
            suite, _, folder = one.partition("=")
            gathered(suite, Path(folder).resolve(), given.tree)
        return
    if given.out is None or (given.keep is None and given.stage != "overhead"):
        parser.error("--out and --keep are needed")
    if given.keep is not None:
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
        return (
            given.stage in ("draft", None)
            and rows[name]["outcome"] == "launched"
            and "kernels" not in rows[name]
        )

    chosen = rows if given.stage == "draft" else drawn(given.tree, given.count, given.seed, given.part)
    names = [one for one in chosen if left(one)]
    with tempfile.TemporaryDirectory(prefix="libcudart-") as libraries:
        more = {} if given.stage == "draft" else flags(given.recorder, Path(libraries))
        if given.stage == "overhead":
            overheads(names, given, more, until_s)
            return
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
