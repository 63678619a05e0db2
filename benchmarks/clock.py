"""What an event pair reads: overhead and spread from process to process, beside Nsight Compute.

    python benchmarks/clock.py --out FILE.json [--processes 10] [--repeats 50]

Needs a GPU. Each fresh process takes event pairs around an empty kernel, compute-bound kernels and copies,
launched and as CUDA graphs, at the same places and at random ones, each after a cache flush. Nsight Compute
then runs the same kernels. Writes every process's medians, and prints the difference from Nsight Compute. The
constants of `kcurate.backends.cuda.clock` and `kcurate.judge.timing.calibration` come from here.
"""

from __future__ import annotations

import argparse
import csv
import json
import random
import shutil
import statistics
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from kcurate.backends.base import Compiled, Memory
from kcurate.backends.cuda import helpers
from kcurate.backends.cuda.compiler import CudaCompiler
from kcurate.backends.cuda.device import CudaDevice
from kcurate.backends.cuda.timer import GpuTimer

SPINS = (200, 500, 1000, 2000, 4000, 8000)
COPIES_MB = (2, 20, 200)
PLACES_BYTES = 3 << 30
NCU_REPEATS = 5
Work = tuple[str, Callable[[], None]]


def works(timer: GpuTimer) -> list[Work]:
    """Every piece of work by name; copies at random places ask for new ones each time."""
    memory = timer.device.allocate(PLACES_BYTES)
    timer.device.fill(memory, 0, PLACES_BYTES, b"\x3c")
    half = PLACES_BYTES // 2

    def place(half_index: int, size: int) -> Memory:
        at = random.randrange(0, half - size) // 256 * 256
        return Memory(memory.address + half_index * half + at, size)

    def graph(work: Callable[[], None]) -> Callable[[], None]:
        made = timer.capture(work)
        assert made is not None, "our kernels do not wait for the device"
        return made.launch

    def copy(size: int, fixed: tuple[Memory, Memory] | None) -> Callable[[], None]:
        def run() -> None:
            one, other = fixed or (place(0, size), place(1, size))
            timer.copy(one, other, size)

        return run

    found: list[Work] = [("empty", timer.empty), ("empty as a graph", graph(timer.empty))]
    found.append(("two empty as a graph", graph(lambda: [timer.empty() for _ in range(2)] and None)))
    found += [(f"spin {rounds}", partial(timer.spin, rounds)) for rounds in SPINS]
    found.append(("spin 1000 as a graph", graph(lambda: timer.spin(1000))))
    for size_mb in COPIES_MB:
        size = size_mb << 20
        found.append((f"copy {size_mb} MB", copy(size, (place(0, size), place(1, size)))))
        found.append((f"copy {size_mb} MB at random places", copy(size, None)))
    return found


def timer_of(gpu: int = 0) -> GpuTimer:
    """The GPU with our kernels."""
    device = CudaDevice(gpu)
    made = CudaCompiler(device.arch).compile(helpers.SOURCE, helpers.ENTRIES)
    assert isinstance(made, Compiled), made
    return GpuTimer(device, made)


def one_process(repeats: int) -> dict[str, float]:
    """The median reading of each piece of work, in microseconds."""
    timer = timer_of()
    given = works(timer)
    events = (timer.event(), timer.event())
    readings: dict[str, list[float]] = {name: [] for name, _ in given}
    for _ in range(repeats):
        for name, work in random.sample(given, len(given)):
            timer.flush()
            timer.span(events, work)
            timer.device.synchronize()
            readings[name].append(timer.elapsed_us(*events))
    return {name: statistics.median(values) for name, values in readings.items()}


def under_ncu() -> None:
    """What Nsight Compute runs: every piece of work that is one kernel."""
    timer = timer_of()
    for name, work in works(timer):
        for _ in range(0 if "graph" in name else NCU_REPEATS):
            timer.flush()
            work()
    timer.device.synchronize()


def ncu_us(names: list[str]) -> dict[str, float]:
    """Nsight Compute's gpu__time_duration, medians; empty without ncu."""
    if shutil.which("ncu") is None:
        return {}
    command = ["ncu", "--clock-control", "none", "--cache-control", "none", "--csv"]
    command += ["--metrics", "gpu__time_duration.sum", "--kernel-name", "regex:kc_copy|kc_empty|kc_spin"]
    done = subprocess.run([*command, sys.executable, __file__, "--under-ncu"], capture_output=True, text=True)
    rows = csv.DictReader(line for line in done.stdout.splitlines() if line.startswith('"'))
    scale = {"ns": 1e-3, "us": 1.0, "ms": 1e3}
    found = [float(row["Metric Value"].replace(",", "")) * scale[row["Metric Unit"]] for row in rows]
    if len(found) != NCU_REPEATS * len(names):
        sys.exit(f"{len(found)} readings of ncu: {done.stdout[-800:]}{done.stderr[-800:]}")
    parts = (found[NCU_REPEATS * i : NCU_REPEATS * (i + 1)] for i in range(len(names)))
    return {name: statistics.median(part) for name, part in zip(names, parts, strict=True)}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--out", type=Path)
    parser.add_argument("--processes", type=int, default=10)
    parser.add_argument("--repeats", type=int, default=50)
    parser.add_argument("--under-ncu", action="store_true")
    parser.add_argument("--one-process", action="store_true")
    options = parser.parse_args()
    if options.under_ncu:
        under_ncu()
        return
    if options.one_process:
        print(json.dumps(one_process(options.repeats)))
        return
    command = [sys.executable, __file__, "--one-process", "--repeats", str(options.repeats)]
    rows = []
    for _ in range(options.processes):
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        rows.append(json.loads(done.stdout.splitlines()[-1]))
    ncu = ncu_us([name for name in rows[0] if "graph" not in name])
    for name in rows[0]:
        values = [row[name] for row in rows]
        median, spread = statistics.median(values), statistics.stdev(values)
        over = f"{median - ncu[name]:+.3f} us over Nsight Compute" if name in ncu else ""
        print(f"{name:32} {median:9.3f} us, between processes {spread:.3f} us  {over}")
    if options.out:
        device = CudaDevice(0).environment()
        options.out.write_text(json.dumps({"device": device.device, "rows": rows, "ncu_us": ncu}, indent=1))


if __name__ == "__main__":
    main()
