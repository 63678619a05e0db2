"""A GPU whose launches a profiler records, all or some of them.

The profiler records between `cuProfilerStart` and `cuProfilerStop`, so none of our own kernels. Of a kernel
that is launched often, some launches are recorded, spread evenly. Not covered: the profiler
(`kcurate.profiling.profiler`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence

from cuda.bindings import driver as cu

from kcurate.backends.base import EntryPoint, Grid, KernelArg, Module
from kcurate.backends.cuda.device import CudaDevice
from kcurate.backends.cuda.driver import call

# Launches of one side that are recorded, and of one of its kernels at least.
MOST_LAUNCHES, LEAST_OF_KERNEL = 8, 2


class ProfiledDevice(CudaDevice):
    """A GPU that counts launches by kernel, and records those in `chosen` (kernel, number)."""

    def __init__(self, index: int) -> None:
        super().__init__(index)
        self.counts: Counter[EntryPoint] = Counter()
        self.chosen: Mapping[tuple[EntryPoint, int], float] = {}
        self.recorded: list[float] = []

    def launch(self, module: Module, entry: EntryPoint, grid: Grid, args: Sequence[KernelArg]) -> None:
        """See `CudaDevice.launch`."""
        weight = self.chosen.get((entry, self.counts[entry]))
        self.counts[entry] += 1
        if weight is None:
            super().launch(module, entry, grid, args)
            return
        self.record(lambda: super(ProfiledDevice, self).launch(module, entry, grid, args))
        self.recorded.append(weight)

    def record(self, work: Callable[[], None]) -> None:
        """Have the profiler record what `work` launches; waits for it."""
        self.synchronize()
        call(cu.cuProfilerStart())
        work()
        self.synchronize()
        call(cu.cuProfilerStop())


def spread(counts: Mapping[EntryPoint, int]) -> dict[tuple[EntryPoint, int], float]:
    """The launches to record, with how many each stands for: all of few, of many some, evenly apart."""
    weights: dict[tuple[EntryPoint, int], float] = {}
    each = MOST_LAUNCHES if sum(counts.values()) <= MOST_LAUNCHES else MOST_LAUNCHES // max(1, len(counts))
    for entry, count in counts.items():
        taken = min(count, max(LEAST_OF_KERNEL, each))
        for i in range(taken):
            weights[entry, (2 * i + 1) * count // (2 * taken)] = count / taken
    return weights
