"""Timing overheads and memory speed of a GPU: the cost of an event pair, and the copy bandwidth.

An event pair around a kernel reads a constant more than the kernel takes. On one H200 (driver 580, November
2026, copies of 2 KB to 2 GB, median of 41): 1.6 to 2.0 us more than Nsight Compute's gpu__time_duration below
100 us, and 1.28 us for an empty kernel. So the overhead is the pair's reading around an empty kernel minus
the duration of an empty kernel. In a graph, each run starts while the previous one ends, so a chain takes
less time per kernel than an event pair reads around one. Chains are calibrated against event pairs: the step
is the time per run in a chain of a kernel of about 0.1 ms, minus the event pair's reading around that kernel
alone; it may be negative. Not covered: where readings are stored (`kcurate.judge.timing.calibration`).
"""

from __future__ import annotations

import statistics
from collections.abc import Callable

from kcurate.backends.cuda.timer import GpuTimer

# gpu__time_duration of an empty kernel (Nsight Compute 2025.3, H200, November 2026).
EMPTY_KERNEL_US = 1.28
REPEATS = 64
CHAINS = (8, 64)
SPIN_ROUNDS = 12_000
SPIN_CHAINS = (8, 16)
COPY_BYTES = 1 << 30


def read(timer: GpuTimer) -> dict[str, float]:
    """Measure `event_overhead_us`, `chain_overhead_us` (per graph), `chain_step_us` (per kernel in it), and
    `copy_bytes_per_s` (bytes read plus bytes written).
    """
    device = timer.device
    source, target = device.allocate(COPY_BYTES), device.allocate(COPY_BYTES)
    device.fill(source, 0, COPY_BYTES, b"\x3c")
    copy_us = spans_us(timer, lambda: timer.copy(target, source, COPY_BYTES), 16)
    empty_us = spans_us(timer, timer.empty, REPEATS)
    overhead_us = max(0.0, statistics.median(empty_us) - EMPTY_KERNEL_US)
    graph_us, _ = _chain(timer, timer.empty, CHAINS)
    alone_us = statistics.median(spans_us(timer, lambda: timer.spin(SPIN_ROUNDS), REPEATS)) - overhead_us
    _, each_us = _chain(timer, lambda: timer.spin(SPIN_ROUNDS), SPIN_CHAINS)
    device.free(source)
    device.free(target)
    return {
        "event_overhead_us": overhead_us,
        "chain_overhead_us": max(0.0, graph_us),
        "chain_step_us": each_us - alone_us,
        "copy_bytes_per_s": 2 * COPY_BYTES / ((statistics.median(copy_us) - overhead_us) * 1e-6),
    }


def _chain(timer: GpuTimer, work: Callable[[], None], lengths: tuple[int, int]) -> tuple[float, float]:
    """(overhead of an event pair around a graph, time per run of `work` in it), in microseconds."""
    few_us, many_us = (_graph_us(timer, work, count) for count in lengths)
    each_us = (many_us - few_us) / (lengths[1] - lengths[0])
    return few_us - lengths[0] * each_us, each_us


def _graph_us(timer: GpuTimer, work: Callable[[], None], count: int) -> float:
    """The reading of an event pair around a graph of `count` runs of `work`."""

    def queue() -> None:
        for _ in range(count):
            work()

    graph = timer.capture(queue)
    assert graph is not None, "our kernels do not wait for the device"
    spans = spans_us(timer, graph.launch, REPEATS // 2)
    graph.close()
    return statistics.median(spans)


def spans_us(timer: GpuTimer, work: Callable[[], None], repeats: int) -> list[float]:
    """Readings of an event pair around `work`, in microseconds, each after a cache flush."""
    events = [(timer.event(), timer.event()) for _ in range(repeats)]
    for pair in events:
        timer.flush()
        timer.span(pair, work)
    timer.device.synchronize()
    return [timer.elapsed_us(first, last) for first, last in events]
