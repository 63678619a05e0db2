"""One input set of a side in timing: queue its plan, restore what the plan writes, checksum its outputs.

Not covered: which sets run when (`kcurate.judge.workers.inside.sampler`,
`kcurate.judge.workers.inside.sample_chains`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from kcurate.backends.base import Memory
from kcurate.backends.cuda.timer import MAX_GATED, GpuTimer

WORD_BYTES = 8
# `nodes` of a plan that cannot be captured as a graph: above every limit.
NOT_CAPTURABLE = 1 << 30


@dataclass(frozen=True)
class Region:
    """The part of an allocation that holds one buffer's contents."""

    memory: Memory
    offset_bytes: int
    size_bytes: int


class Runnable(Protocol):
    """One prepared input set of a side."""

    def run(self) -> None:
        """Queue the plan."""

    def reset_state(self) -> None:
        """Queue: restore the module's globals."""

    def written(self) -> Sequence[Memory]:
        """The whole allocations that the plan may write, always in the same order."""

    def queued_operations(self) -> int | None:
        """The most operations that a plan that cannot be captured queues; None if unknown."""

    def results(self) -> Sequence[Region]:
        """Queue what completes the outputs; return those that a checksum covers, without redzones."""

    def size_bytes(self) -> int:
        """The size of all allocations, each rounded up to 256 bytes."""

    def clone(self, allocate: Callable[[int], Memory]) -> Runnable:
        """A copy in other memory, with the same contents."""


def sum_regions(timer: GpuTimer, regions: Sequence[Region], salt: int) -> int:
    """One 64-bit checksum of the regions' current contents; waits for it."""
    timer.device.fill(timer.word, 0, WORD_BYTES, b"\0")
    _add_sums(timer, regions, salt, timer.word.address)
    return int(timer.device.read(timer.word, 0, WORD_BYTES).view(np.uint64)[0])


def _add_sums(timer: GpuTimer, regions: Sequence[Region], salt: int, word: int) -> None:
    for i, region in enumerate(regions):
        timer.checksum(region.memory, region.offset_bytes, region.size_bytes, salt + i, word)


def zeroed_words(timer: GpuTimer, count: int) -> Memory:
    """Zeroed words for `count` checksums, in memory that is reused by each call."""
    words = timer.words(WORD_BYTES * count)
    timer.device.fill(words, 0, WORD_BYTES * count, b"\0")
    return words


def read_words(timer: GpuTimer, words: Memory, count: int) -> list[int]:
    """The words' values; waits for all queued work."""
    data = timer.device.read(words, 0, WORD_BYTES * count)
    return [int(word) for word in data.view(np.uint64)]


class TimedInputSet:
    """One input set. `copies` are (memory, a copy of its contents before a run), owned unless given."""

    def __init__(
        self, timer: GpuTimer, runnable: Runnable, copies: Sequence[tuple[Memory, Memory]] | None = None
    ) -> None:
        self._timer = timer
        self.runnable = runnable
        self._owned: list[Memory] = []
        self.copies = list(copies) if copies is not None else self._copy()
        self.graph = timer.capture(runnable.run) if copies is None else None
        self._restore_graph = timer.capture(self.restore) if copies is None else None

    def _copy(self) -> list[tuple[Memory, Memory]]:
        device = self._timer.device
        found = [(memory, device.allocate(memory.size_bytes)) for memory in self.runnable.written()]
        self._owned = [copy for _, copy in found]
        for memory, copy in found:
            device.copy(copy, 0, memory, 0, memory.size_bytes)
        return found

    def clone(self, allocate: Callable[[int], Memory]) -> TimedInputSet:
        """The same set in other memory. It restores from this set's copies, which must outlive it."""
        runnable = self.runnable.clone(allocate)
        places = zip(runnable.written(), self.copies, strict=True)
        return TimedInputSet(self._timer, runnable, [(memory, copy) for memory, (_, copy) in places])

    @property
    def nodes(self) -> int:
        """Graph nodes of the plan, or `NOT_CAPTURABLE`."""
        return max(1, self.graph.nodes) if self.graph is not None else NOT_CAPTURABLE

    @property
    def gated(self) -> bool:
        """Whether the whole plan can be queued before any of it runs."""
        queued = self.nodes if self.graph is not None else self.runnable.queued_operations()
        return queued is not None and queued <= MAX_GATED

    def restore(self) -> None:
        """Queue: restore everything that the plan writes, one copy at a time."""
        for memory, copy in self.copies:
            self._timer.device.copy(memory, 0, copy, 0, memory.size_bytes)
        self.runnable.reset_state()

    def restore_and_flush(self) -> None:
        """Queue: restore what the plan writes, as one graph if possible, and flush the L2 cache."""
        if self._restore_graph is None:
            self.restore()
        elif self._restore_graph.nodes:
            self._restore_graph.launch()
        self._timer.flush()

    def run(self) -> None:
        """Queue the plan, as one graph if it has more than one node."""
        if self.graph is not None and self.graph.nodes > 1:
            self.graph.launch()
        else:
            self.runnable.run()

    def add_checksum(self, word: int, salt: int) -> None:
        """Queue: add the outputs' checksum to the word at device address `word`."""
        _add_sums(self._timer, self.runnable.results(), salt, word)

    def close(self) -> None:
        """Free graphs and owned copies."""
        for graph in (self.graph, self._restore_graph):
            if graph is not None:
                graph.close()
        for memory in self._owned:
            self._timer.device.free(memory)
