"""What the emulator costs: compiling a side, and running threads that wait for each other and that do not.

    python benchmarks/emulator.py [--repeats 5]

Compiling: with nothing kept, a side of the built-in gemm, wall time. Running: processor time, one thread.
Medians over the repeats, after one run that is not counted. Stops are counted by hand: a thread that waits
stops once and is resumed once.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from unittest import mock

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from kcurate.backends.base import Compiled, EntryPoint, Grid, KernelArg, Pointer, ScalarValue
from kcurate.backends.emulator import toolchain
from kcurate.backends.emulator.compiler import EmulatorCompiler
from kcurate.backends.emulator.device import EmulatorDevice
from kcurate.core.resources import pairs_dir

SUMS = range(64)
PRODUCT = f"""asm volatile("wgmma.mma_async.sync.aligned.m64n128k16.f32.f16.f16"
    " {{{", ".join(f"%{i}" for i in SUMS)}}}, %64, %65, 1, 1, 1, 0, 0;"
    : {", ".join(f'"+f"(d[{i}])' for i in SUMS)} : "l"(left), "l"(right))"""
CODE = """
extern "C" __global__ void scale(float *a, const float *b, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) a[i] = 2.0f * b[i] + 1.0f;
}
extern "C" __global__ void tiled(float *c, const float *a, int n) {
    __shared__ float left[16][16], right[16][16];
    int x = blockIdx.x * 16 + threadIdx.x, y = blockIdx.y * 16 + threadIdx.y;
    float sum = 0;
    for (int at = 0; at < n; at += 16) {
        left[threadIdx.y][threadIdx.x] = a[y * n + at + threadIdx.x];
        right[threadIdx.y][threadIdx.x] = a[(at + threadIdx.y) * n + x];
        __syncthreads();
        for (int k = 0; k < 16; k++) sum += left[threadIdx.y][k] * right[k][threadIdx.x];
        __syncthreads();
    }
    c[y * n + x] = sum;
}
extern "C" __global__ void tree(float *sums, const float *a, int n) {
    __shared__ float part[256];
    int t = threadIdx.x;
    part[t] = a[blockIdx.x * 256 + t];
    __syncthreads();
    for (int stride = 128; stride > 0; stride /= 2) {
        if (t < stride) part[t] += part[t + stride];
        __syncthreads();
    }
    if (t == 0) sums[blockIdx.x] = part[0];
}
extern "C" __global__ void shuffle(float *sums, const float *a, int n) {
    float v = a[blockIdx.x * 256 + threadIdx.x];
    for (int offset = 16; offset > 0; offset /= 2) v += __shfl_down_sync(0xffffffffu, v, offset);
    if (threadIdx.x % 32 == 0) atomicAdd(sums + blockIdx.x, v);
}
extern "C" __global__ void wgmma(float *sums, const float *a, int n) {
    __shared__ __align__(1024) float tiles[6144];
    float d[64] = {};
    for (int i = threadIdx.x; i < 6144; i += 128) tiles[i] = a[i];
    __syncthreads();
    const unsigned at = (unsigned)__cvta_generic_to_shared(tiles);
    const unsigned long long left = 1ull << 62 | 64ull << 32 | (at & 0x3ffff) >> 4, right = left + 8192 / 16;
    for (int i = 0; i < n; i++) PRODUCT;
    asm volatile("wgmma.commit_group.sync.aligned; wgmma.wait_group.sync.aligned 0;");
    for (int i = 0; i < 64; i++) sums[64 * threadIdx.x + i] = d[i];
}
""".replace("PRODUCT", PRODUCT)


@dataclass(frozen=True)
class Work:
    """A kernel, its launch, and how often its threads stop to wait."""

    kernel: str
    grid: Grid
    n: int
    elements: int
    stops: int


WORKS = (
    Work("scale", Grid((4096, 1, 1), (256, 1, 1)), 1 << 20, 1 << 20, 0),
    Work("tiled", Grid((16, 16, 1), (16, 16, 1)), 256, 256 * 256, 65536 * 32),
    Work("tree", Grid((4096, 1, 1), (256, 1, 1)), 1 << 20, 1 << 20, (1 << 20) * 9),
    Work("shuffle", Grid((4096, 1, 1), (256, 1, 1)), 1 << 20, 1 << 20, (1 << 20) * 5 * 31 // 32),
    # a thousand products of 64 x 16 by 16 x 128
    Work("wgmma", Grid((1, 1, 1), (128, 1, 1)), 1000, 128 * 64, 0),
)


def measured(action: Callable[[], object], repeats: int, clock: Callable[[], float]) -> list[float]:
    """Times in seconds, after one that is not counted."""
    action()
    times = []
    for _ in range(repeats):
        started = clock()
        action()
        times.append(clock() - started)
    return times


def compile_times(repeats: int) -> list[float]:
    """A side compiled from nothing."""
    compiler = EmulatorCompiler()
    code = (pairs_dir() / "dense-linear-algebra" / "gemm" / "fast.cu").read_text()
    with mock.patch.object(toolchain, "cache_folder", lambda: Path("/dev/null/nothing")):
        return measured(lambda: compiler.compile(code, [EntryPoint("gemm")]), repeats, time.perf_counter)


def run_times(work: Work, repeats: int) -> list[float]:
    """One launch of a kernel."""
    made = EmulatorCompiler().compile(CODE, [EntryPoint(each.kernel) for each in WORKS])
    assert isinstance(made, Compiled), made.log
    device = EmulatorDevice()
    module = device.load(made)
    to, source = device.allocate(work.elements * 4), device.allocate(work.elements * 4)
    device.write(source, 0, np.ones(work.elements, np.float32))
    args: list[KernelArg] = [Pointer(to), Pointer(source), ScalarValue(np.int32(work.n).tobytes())]
    entry = EntryPoint(work.kernel)
    times = measured(lambda: device.launch(module, entry, work.grid, args), repeats, time.process_time)
    device.close()
    return times


def report(name: str, times: list[float], stops: int = 0) -> None:
    """One line: median and range in milliseconds, and what a stop costs."""
    middle = statistics.median(times)
    line = f"{name:10} {1e3 * middle:8.1f} ms  ({1e3 * min(times):.1f} to {1e3 * max(times):.1f})"
    print(line + (f"  {1e9 * middle / stops:.0f} ns a stop" if stops else ""))


def main() -> None:
    """Print a table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--repeats", type=int, default=5)
    repeats = parser.parse_args().repeats
    print(f"{toolchain.find().version}, {os.cpu_count()} cores, medians of {repeats}")
    report("compile", compile_times(repeats))
    for work in WORKS:
        report(work.kernel, run_times(work, repeats), work.stops)


if __name__ == "__main__":
    main()
