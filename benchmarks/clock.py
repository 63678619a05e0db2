"""What a GPU's clock reads: event pairs, chains and Nsight Compute on the same kernels; contexts a second.

    python benchmarks/clock.py [--out FILE.json]
    python benchmarks/clock.py --under-ncu        (what ncu runs: each kernel five times, flushed before)

Needs a GPU. The kernel is a copy of 2 KB to 4 GB, so durations go from 2 us to about 1 ms. Prints a table and
writes raw data as JSON.
"""

from __future__ import annotations

import argparse
import csv
import json
import os
import shutil
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from kcurate.backends.base import Compiled
from kcurate.backends.cuda import timer as cuda_timer
from kcurate.backends.cuda.compiler import CudaCompiler
from kcurate.backends.cuda.device import CudaDevice
from kcurate.backends.cuda.timer import GpuTimer

SIZES = tuple(1 << shift for shift in (11, 18, 20, 22, 24, 25, 26, 27, 28, 29, 30, 31))
REPEATS = 41
FORKS = (1, 4, 8, 16)


def helpers() -> Compiled:
    made = CudaCompiler("sm_90").compile(cuda_timer.HELPERS, cuda_timer.HELPER_ENTRIES)
    assert isinstance(made, Compiled), made
    return made


def forked_contexts(count: int) -> list[float]:
    """Seconds from one fork after another to each child's open context."""
    started = time.perf_counter()
    ends = []
    for _ in range(count):
        read, write = os.pipe()
        if os.fork() == 0:
            device = CudaDevice(0)
            device.allocate(1 << 20)
            device.synchronize()
            os.write(write, json.dumps(time.perf_counter() - started).encode())
            os._exit(0)
        os.close(write)
        ends.append(read)
    return sorted(float(os.read(end, 100)) for end in ends)


def check_device(device: CudaDevice) -> None:
    memory = device.allocate(1 << 12)
    for pattern in (b"\x01", b"\x01\x02", b"\x01\x02\x03\x04", b"\x01\x02\x03\x04\x05\x06\x07\x08"):
        device.fill(memory, 0, 1 << 12, b"\xee")
        device.fill(memory, 64, 1024, pattern)
        data = device.read(memory, 0, 1 << 12).tobytes()
        assert data == b"\xee" * 64 + pattern * (1024 // len(pattern)) + b"\xee" * (4096 - 1088), pattern
    print("fill, read: ok", device.environment())


def median(values: list[float]) -> float:
    return statistics.median(values)


def spans(timer: GpuTimer, work: Any, before: Any) -> list[float]:
    events = [(timer.event(), timer.event()) for _ in range(REPEATS)]
    for start in range(0, REPEATS, 8):
        timer.close_gate()
        for first, last in events[start : start + 8]:
            before()
            timer.record(first)
            work()
            timer.record(last)
        timer.open_gate()
        timer.device.synchronize()
    return [timer.elapsed_us(first, last) for first, last in events]


def chain_us(timer: GpuTimer, work: Any, count: int) -> float:
    def queue(run: bool) -> Any:
        def inner() -> None:
            for _ in range(count):
                timer.flush()
                if run:
                    work()

        return inner

    full, empty = timer.capture(queue(True)), timer.capture(queue(False))
    assert full is not None and empty is not None
    with_work = spans(timer, full.launch, timer.flush)
    without = spans(timer, empty.launch, timer.flush)
    return (median(with_work) - median(without)) / count


def read_clock(device: CudaDevice) -> list[dict[str, float]]:
    timer = GpuTimer(device, helpers())
    a, b = device.allocate(SIZES[-1]), device.allocate(SIZES[-1])
    device.fill(a, 0, SIZES[-1], b"\x07")
    rows = []
    for _ in range(300):
        timer.copy(b, a, 1 << 28)
    device.synchronize()
    graph = timer.capture(timer.empty)
    assert graph is not None
    rows.append({"bytes": -1.0, "events_us": median(spans(timer, lambda: None, timer.flush))})
    rows.append({"bytes": -2.0, "events_us": median(spans(timer, graph.launch, timer.flush))})
    rows.append(
        {
            "bytes": 0.0,
            "events_us": median(spans(timer, timer.empty, timer.flush)),
            "chain_us": chain_us(timer, timer.empty, 16),
        }
    )
    for size in SIZES:

        def work(size: int = size) -> None:
            timer.copy(b, a, size)

        one = timer.capture(work)
        assert one is not None
        flushed = spans(timer, work, timer.flush)
        row = {
            "bytes": float(size),
            "events_us": median(flushed),
            "events_warm_us": median(spans(timer, work, lambda: None)),
            "graph_us": median(spans(timer, one.launch, timer.flush)),
            "written_flush_us": median(
                spans(timer, work, lambda: device.fill(timer.scratch, 0, timer.flush_bytes, b"\0"))
            ),
        }
        if size <= 1 << 25:
            row["chain_us"] = chain_us(timer, work, 16)
        rows.append(row)
    return rows


def under_ncu() -> None:
    device = CudaDevice(0)
    timer = GpuTimer(device, helpers())
    a, b = device.allocate(SIZES[-1]), device.allocate(SIZES[-1])
    for _ in range(5):
        timer.flush()
        timer.empty()
    for size in SIZES:
        for _ in range(5):
            timer.flush()
            timer.copy(b, a, size)
    device.synchronize()


def ncu_times() -> dict[int, float]:
    if shutil.which("ncu") is None:
        return {}
    command = ["ncu", "--clock-control", "none", "--cache-control", "none", "--csv"]
    command += ["--metrics", "gpu__time_duration.sum", "--kernel-name", "regex:kc_copy|kc_empty"]
    done = subprocess.run(
        [*command, sys.executable, __file__, "--under-ncu"], capture_output=True, text=True, check=False
    )
    lines = [line for line in done.stdout.splitlines() if line.startswith('"')]
    found: list[float] = []
    for row in csv.DictReader(lines):
        scale = {"ns": 1e-3, "nsecond": 1e-3, "us": 1.0, "usecond": 1.0, "ms": 1e3, "msecond": 1e3}
        found.append(float(row["Metric Value"].replace(",", "")) * scale[row["Metric Unit"]])
    if len(found) != 5 * (len(SIZES) + 1):
        print(done.stdout[-1500:], done.stderr[-1500:])
        return {}
    keys = (0, *SIZES)
    return {key: median(found[5 * i : 5 * i + 5]) for i, key in enumerate(keys)}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--out", type=Path)
    parser.add_argument("--under-ncu", action="store_true")
    parser.add_argument("--contexts", action="store_true", help="only contexts a second")
    options = parser.parse_args()
    if options.under_ncu:
        under_ncu()
        return
    helpers_time = time.perf_counter()
    contexts = {count: forked_contexts(count) for count in FORKS}
    print("contexts ready after (s):", {n: (round(t[0], 2), round(t[-1], 2)) for n, t in contexts.items()})
    if options.contexts:
        return
    print(f"that took {time.perf_counter() - helpers_time:.1f} s")
    device = CudaDevice(0)
    check_device(device)
    rows = read_clock(device)
    device.close()
    ncu = ncu_times()
    for row in rows:
        row["ncu_us"] = ncu.get(int(row["bytes"]), float("nan"))
        print({key: round(value, 3) for key, value in row.items()})
    if options.out:
        options.out.write_text(json.dumps({"contexts_s": contexts, "rows": rows}, indent=1))


if __name__ == "__main__":
    main()
