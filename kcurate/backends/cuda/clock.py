"""What one GPU's clock and memory are like: the cost of an event pair, and the copy bandwidth.

An event pair around a kernel reads a constant more than the kernel takes. On one H200 (driver 580, November
2026, copies of 2 KB to 2 GB, median of 41): 1.6 to 2.0 us more than Nsight Compute's gpu__time_duration below
100 us, and 1.28 us for an empty kernel. So the cost is what the pair reads around an empty kernel, less what
an empty kernel takes. In a graph, a run begins while the one before it ends, so that a chain takes less a
kernel than an event pair reads around one. Chains are brought in line with event pairs: the step from run to
run is what a chain of a kernel of about 0.1 ms takes a run, less what an event pair reads around that kernel
alone; it may be below zero. Not covered: where readings are kept (`kcurate.judge.timing.calibration`).
"""

from __future__ import annotations

import statistics
from collections.abc import Callable

from kcurate.backends.cuda.bench import Bench

# gpu__time_duration of an empty kernel (Nsight Compute 2025.3, H200, November 2026).
EMPTY_KERNEL_US = 1.28
REPEATS = 64
CHAINS = (8, 64)
SPIN_ROUNDS = 12_000
SPIN_CHAINS = (8, 16)
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
    overhead_us = max(0.0, statistics.median(empty_us) - EMPTY_KERNEL_US)
    graph_us, _ = _chain(bench, bench.empty, CHAINS)
    alone_us = statistics.median(spans_us(bench, lambda: bench.spin(SPIN_ROUNDS), REPEATS)) - overhead_us
    _, each_us = _chain(bench, lambda: bench.spin(SPIN_ROUNDS), SPIN_CHAINS)
    device.free(source)
    device.free(target)
    return {
        "event_overhead_us": overhead_us,
        "chain_overhead_us": max(0.0, graph_us),
        "chain_step_us": each_us - alone_us,
        "copy_bytes_per_s": 2 * COPY_BYTES / ((statistics.median(copy_us) - overhead_us) * 1e-6),
    }


def _chain(bench: Bench, work: Callable[[], None], lengths: tuple[int, int]) -> tuple[float, float]:
    """(what an event pair reads around a graph beside its runs, what each run of `work` takes in it), us."""
    few_us, many_us = (_graph_us(bench, work, count) for count in lengths)
    each_us = (many_us - few_us) / (lengths[1] - lengths[0])
    return few_us - lengths[0] * each_us, each_us


def _graph_us(bench: Bench, work: Callable[[], None], count: int) -> float:
    """What an event pair around a graph of `count` times `work` reads."""

    def queue() -> None:
        for _ in range(count):
            work()

    graph = bench.capture(queue)
    assert graph is not None, "our kernels need no host"
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
