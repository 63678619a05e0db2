"""Timing overheads and memory speed of a GPU: the cost of an event pair, and the copy bandwidth.

An event pair around a kernel reads longer than the kernel takes, by a constant: 1.0 us more than Nsight
Compute's gpu__time_duration on an H100 and 1.4 us on an H200, for kernels of 4 us to 0.1 ms, whether
compute-bound or copies, with a standard deviation of 0.05 to 0.1 us between processes (November 2026, 10 and
14 fresh processes). So the overhead is the reading around an empty kernel minus the duration of an empty
kernel. A graph adds a little. Not covered: where readings are stored (`kcurate.judge.timing.calibration`).
"""

from __future__ import annotations

import statistics
from collections.abc import Callable

from kcurate.backends.cuda.timer import GpuTimer

# gpu__time_duration of an empty kernel: 1.46 us on an H200, 2.26 us on an H100 (Nsight Compute 2025.3,
# November 2026). The difference is the uncertainty of every time that the judge reports.
EMPTY_KERNEL_US = 1.8
REPEATS = 64
COPY_BYTES = 1 << 30


def read(timer: GpuTimer) -> dict[str, float]:
    """Measure `event_overhead_us`, `graph_overhead_us`, and `copy_bytes_per_s` (bytes read plus written)."""
    device = timer.device
    source, target = device.allocate(COPY_BYTES), device.allocate(COPY_BYTES)
    device.fill(source, 0, COPY_BYTES, b"\x3c")
    copy_us = spans_us(timer, lambda: timer.copy(target, source, COPY_BYTES), 16)
    device.free(source)
    device.free(target)
    graph = timer.capture(timer.empty)
    assert graph is not None, "our kernels do not wait for the device"
    overheads = [
        max(0.0, statistics.median(spans_us(timer, work, REPEATS)) - EMPTY_KERNEL_US)
        for work in (timer.empty, graph.launch)
    ]
    graph.close()
    return {
        "event_overhead_us": overheads[0],
        "graph_overhead_us": overheads[1],
        "copy_bytes_per_s": 2 * COPY_BYTES / ((statistics.median(copy_us) - overheads[0]) * 1e-6),
    }


def spans_us(timer: GpuTimer, work: Callable[[], None], repeats: int) -> list[float]:
    """Readings of an event pair around `work`, in microseconds, each after a cache flush."""
    events = [(timer.event(), timer.event()) for _ in range(repeats)]
    for pair in events:
        timer.flush()
        timer.span(pair, work)
    timer.device.synchronize()
    return [timer.elapsed_us(first, last) for first, last in events]
