"""A GPU whose launches are recorded by a profiler.

The profiler records between `cuProfilerStart` and `cuProfilerStop`, so our own kernels are left out. If a
kernel is launched often, only some launches are recorded, evenly spread. Not covered: the profiler
(`kcurate.profiling.profiler`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence

from cuda.bindings import driver as cu

from kcurate.backends.base import EntryPoint, Grid, KernelArg, Module
from kcurate.backends.cuda.device import CudaDevice
from kcurate.backends.cuda.driver import call

# The most launches of a side that are recorded; and of each kernel at least this many.
MOST_LAUNCHES, LEAST_OF_KERNEL = 8, 2


class ProfiledDevice(CudaDevice):
    """A GPU that counts launches by kernel, and records those in `chosen`.

    `chosen`: by kernel and number of the launch, how many launches it represents.
    """

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
        """Record the launches of `work`; waits for them."""
        self.synchronize()
        call(cu.cuProfilerStart())
        work()
        self.synchronize()
        call(cu.cuProfilerStop())


def spread(counts: Mapping[EntryPoint, int]) -> dict[tuple[EntryPoint, int], float]:
    """The launches to record, evenly spread, and how many launches each represents.

    If there are few launches, all are recorded.
    """
    weights: dict[tuple[EntryPoint, int], float] = {}
    budget = MOST_LAUNCHES if sum(counts.values()) <= MOST_LAUNCHES else MOST_LAUNCHES // max(1, len(counts))
    for entry, count in counts.items():
        recorded = min(count, max(LEAST_OF_KERNEL, budget))
        for i in range(recorded):
            weights[entry, (2 * i + 1) * count // (2 * recorded)] = count / recorded
    return weights
