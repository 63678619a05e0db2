"""What one GPU's clock and memory are like: the cost of an event pair, and the copy bandwidth.

An event pair around a kernel reads a constant more than the kernel takes. On one H200 (driver 580, November
2026, copies of 2 KB to 2 GB, median of 41): 1.6 to 2.0 us more than Nsight Compute's gpu__time_duration
below 100 us, and 1.28 us for an empty kernel. So the cost is what the pair reads around an empty kernel,
less what an empty kernel takes. In a graph of empty kernels the time grows by a step a kernel; that step,
less what an empty kernel takes, is what the way from one kernel to the next costs. Not covered: where
readings are kept (`kcurate.judge.calibration`).
"""

from __future__ import annotations

import statistics
from collections.abc import Callable

from kcurate.backends.cuda.bench import Bench

# gpu__time_duration of an empty kernel (Nsight Compute 2025.3, H200, November 2026).
EMPTY_KERNEL_US = 1.28
REPEATS = 64
CHAINS = (8, 64)
COPY_BYTES = 1 << 30


def read(bench: Bench) -> dict[str, float]:
    """`event_overhead_us`, `chain_overhead_us` (around a graph), `chain_step_us` (from kernel to kernel in
    it), and `copy_bytes_per_s` counting bytes read plus bytes written.
    """
    device = bench.device
    source, target = device.allocate(COPY_BYTES), device.allocate(COPY_BYTES)
    device.fill(source, 0, COPY_BYTES, b"\x3c")
    copy_us = spans_us(bench, lambda: bench.copy(target, source, COPY_BYTES), 16)
    empty_us = spans_us(bench, bench.empty, REPEATS)
    short_us, long_us = (_chain_us(bench, count) for count in CHAINS)
    step_us = (long_us - short_us) / (CHAINS[1] - CHAINS[0])
    device.free(source)
    device.free(target)
    overhead_us = max(0.0, statistics.median(empty_us) - EMPTY_KERNEL_US)
    return {
        "event_overhead_us": overhead_us,
        "chain_overhead_us": max(0.0, short_us - CHAINS[0] * step_us),
        "chain_step_us": max(0.0, step_us - EMPTY_KERNEL_US),
        "copy_bytes_per_s": 2 * COPY_BYTES / ((statistics.median(copy_us) - overhead_us) * 1e-6),
    }


def _chain_us(bench: Bench, count: int) -> float:
    """What an event pair around a graph of `count` empty kernels reads."""

    def queue() -> None:
        for _ in range(count):
            bench.empty()

    graph = bench.capture(queue)
    assert graph is not None, "empty kernels need no host"
    spans = spans_us(bench, graph.launch, REPEATS // 2)
    graph.close()
    return statistics.median(spans)


def spans_us(bench: Bench, work: Callable[[], None], repeats: int) -> list[float]:
    """What an event pair around `work` reads, the cache flushed before, in microseconds."""
    events = [(bench.event(), bench.event()) for _ in range(repeats)]
    for pair in events:
        bench.flush()
        bench.span(pair, work)
    bench.device.synchronize()
    return [bench.elapsed_us(first, last) for first, last in events]
