"""One input set of a side as timing uses it: its plan ready to queue, and how to put back what it changes.

Runs in a worker. Also the sums over device memory that vouch for outputs. Not covered: which sets are run
when (`kcurate.judge.workers.inside.sampler`, `kcurate.judge.workers.inside.sample_chains`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from kcurate.backends.base import Memory
from kcurate.backends.cuda.bench import MAX_GATED, Bench

SLOT_BYTES = 8
# The pieces of work of a plan that waits for the host: too many for any queue.
HOST_IN_BETWEEN = 1 << 30


@dataclass(frozen=True)
class Region:
    """Part of an allocation: what one buffer of the problem occupies."""

    memory: Memory
    offset_bytes: int
    size_bytes: int


class Runnable(Protocol):
    """One prepared input set of a side."""

    def run(self) -> None:
        """Queue the plan."""

    def reset_state(self) -> None:
        """Queue: give the module's variables their first values."""

    def written(self) -> Sequence[Memory]:
        """Whole allocations that the plan may write, always in the same order."""

    def pieces(self) -> int | None:
        """How many pieces of work a plan that no graph can hold queues at most, where that is known."""

    def results(self) -> Sequence[Region]:
        """The outputs that a sum can vouch for, without redzones; queues what a run leaves to do for them."""

    def size_bytes(self) -> int:
        """All allocations together, each rounded up to 256 bytes."""

    def twin(self, allocate: Callable[[int], Memory]) -> Runnable:
        """The same contents in other memory."""


def sum_regions(bench: Bench, regions: Sequence[Region], salt: int) -> int:
    """One 64-bit sum over regions, as they are now; waits for it."""
    bench.device.fill(bench.word, 0, SLOT_BYTES, b"\0")
    _add_sums(bench, regions, salt, bench.word.address)
    return int(bench.device.read(bench.word, 0, SLOT_BYTES).view(np.uint64)[0])


def _add_sums(bench: Bench, regions: Sequence[Region], salt: int, slot: int) -> None:
    for i, region in enumerate(regions):
        bench.checksum(region.memory, region.offset_bytes, region.size_bytes, salt + i, slot)


def slot_words(bench: Bench, count: int) -> Memory:
    """Zeroed words for `count` sums, in memory that is used again each time."""
    slots = bench.words(SLOT_BYTES * count)
    bench.device.fill(slots, 0, SLOT_BYTES * count, b"\0")
    return slots


def read_words(bench: Bench, slots: Memory, count: int) -> list[int]:
    """The sums; waits for what came before."""
    data = bench.device.read(slots, 0, SLOT_BYTES * count)
    return [int(word) for word in data.view(np.uint64)]


class TimedSet:
    """One input set. `copies` are (memory, what it held before a run), owned unless given."""

    def __init__(
        self, bench: Bench, runnable: Runnable, copies: Sequence[tuple[Memory, Memory]] | None = None
    ) -> None:
        self._bench = bench
        self.runnable = runnable
        self._owned: list[Memory] = []
        self.copies = list(copies) if copies is not None else self._copy()
        self.graph = bench.capture(runnable.run) if copies is None else None
        self._put_back = bench.capture(self.put_back) if copies is None else None

    def _copy(self) -> list[tuple[Memory, Memory]]:
        device = self._bench.device
        found = [(memory, device.allocate(memory.size_bytes)) for memory in self.runnable.written()]
        self._owned = [copy for _, copy in found]
        for memory, copy in found:
            device.copy(copy, 0, memory, 0, memory.size_bytes)
        return found

    def twin(self, allocate: Callable[[int], Memory]) -> TimedSet:
        """The same set in other memory; put back from this one's copies, which must outlive it."""
        runnable = self.runnable.twin(allocate)
        places = zip(runnable.written(), self.copies, strict=True)
        return TimedSet(self._bench, runnable, [(memory, copy) for memory, (_, copy) in places])

    @property
    def nodes(self) -> int:
        """Pieces of work in the plan; past all limits when the host has a part in it."""
        return max(1, self.graph.nodes) if self.graph is not None else HOST_IN_BETWEEN

    @property
    def gated(self) -> bool:
        """Whether all of the plan can be queued before any of it runs."""
        pieces = self.nodes if self.graph is not None else self.runnable.pieces()
        return pieces is not None and pieces <= MAX_GATED

    def put_back(self) -> None:
        """Queue, piece by piece: give everything that the plan writes its state before a run."""
        for memory, copy in self.copies:
            self._bench.device.copy(memory, 0, copy, 0, memory.size_bytes)
        self.runnable.reset_state()

    def restore(self) -> None:
        """Queue: put back what the plan writes, flush the cache."""
        if self._put_back is None:
            self.put_back()
        elif self._put_back.nodes:
            self._put_back.launch()
        self._bench.flush()

    def run(self) -> None:
        """Queue the plan: as one graph when it is more than one piece of work."""
        if self.graph is not None and self.graph.nodes > 1:
            self.graph.launch()
        else:
            self.runnable.run()

    def add_checksum(self, slot: int, salt: int) -> None:
        """Queue: sum the outputs into the word at device address `slot`."""
        _add_sums(self._bench, self.runnable.results(), salt, slot)

    def close(self) -> None:
        """Give graphs and copies back."""
        for graph in (self.graph, self._put_back):
            if graph is not None:
                graph.close()
        for memory in self._owned:
            self._bench.device.free(memory)
