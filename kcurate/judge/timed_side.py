"""The half of timing that runs in a worker: one side's samples, taken on the device.

Before each sample, outside the measured span: what the side writes is put back (from copies on the device,
so outputs are poisoned again), and the L2 cache is flushed. The work of a block is queued behind a gate, so
the host's speed does not show. Each sample's outputs get a checksum on the device: a kernel that behaves
only when it is looked at is seen; and memory of ours that no candidate knows of is summed before and after
(`witness`), so that it cannot keep a note there. Not covered: how many blocks, and what the numbers mean
(`kcurate.judge.timing`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from kcurate.backends.base import Memory
from kcurate.backends.cuda.bench import Bench, Graph

# The driver's queue holds about a thousand entries; behind a closed gate a full one would wait for ever.
MAX_GATED = 400
SLOT_BYTES = 8


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
        """Whole allocations that the plan may write."""

    def results(self) -> Sequence[Region]:
        """The outputs that a sum can vouch for, without redzones."""


def sum_regions(bench: Bench, regions: Sequence[Region], salt: int) -> int:
    """One 64-bit sum over regions, as they are now; waits for it."""
    bench.device.fill(bench.word, 0, SLOT_BYTES, b"\0")
    _add_sums(bench, regions, salt, bench.word.address)
    return int(bench.device.read(bench.word, 0, SLOT_BYTES).view(np.uint64)[0])


def _add_sums(bench: Bench, regions: Sequence[Region], salt: int, slot: int) -> None:
    for i, region in enumerate(regions):
        bench.checksum(region.memory, region.offset_bytes, region.size_bytes, salt + i, slot)


class TimedSet:
    """One input set: its plan, ready to queue, and how to put back what it changes."""

    def __init__(self, bench: Bench, runnable: Runnable) -> None:
        self._bench = bench
        self.runnable = runnable
        device = bench.device
        self.copies = [(memory, device.allocate(memory.size_bytes)) for memory in runnable.written()]
        for memory, copy in self.copies:
            device.copy(copy, 0, memory, 0, memory.size_bytes)
        self.graph = bench.capture(runnable.run)
        self._put_back = bench.capture(self.put_back)
        device.synchronize()
        self.weight = len(runnable.results()) + 6

    @property
    def capturable(self) -> bool:
        """Whether the plan runs without the host in between."""
        return self.graph is not None

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
        for _, copy in self.copies:
            self._bench.device.free(copy)


class TimedSide:
    """All input sets of one side. `salt` makes checksums unpredictable."""

    def __init__(self, bench: Bench, sets: Sequence[Runnable], salt: int) -> None:
        self._bench = bench
        self._sets = [TimedSet(bench, runnable) for runnable in sets]
        self._salt = salt
        self._events: list[Any] = []
        self._slots: Memory | None = None
        self._chains: tuple[int, Graph, Graph] | None = None
        self.gated = all(timed.capturable for timed in self._sets)

    def describe(self) -> dict[str, Any]:
        """What the parent needs to choose a method."""
        return {
            "sets": len(self._sets),
            "capturable": self.gated,
            "nodes": max((timed.graph.nodes if timed.graph else 0) for timed in self._sets),
            "l2_bytes": self._bench.l2_bytes,
        }

    def sums(self) -> list[int]:
        """Run every set once; the checksum of its outputs."""
        slots = self._slot_words(len(self._sets))
        for i, timed in enumerate(self._sets):
            timed.restore()
            timed.run()
            timed.add_checksum(slots.address + SLOT_BYTES * i, self._salt)
        return self._read_words(slots, len(self._sets))

    def witness(self) -> int:
        """A sum over our own memory that lies beside the side's buffers."""
        copies = [copy for timed in self._sets for _, copy in timed.copies]
        regions = [Region(memory, 0, memory.size_bytes) for memory in (self._bench.scratch, *copies)]
        return sum_regions(self._bench, regions, self._salt ^ 0x51DE)

    def close(self) -> None:
        """Give everything back but the kernels."""
        for timed in self._sets:
            timed.close()
        if self._chains is not None:
            self._chains[1].close()
            self._chains[2].close()
        for event in self._events:
            self._bench.drop_event(event)
        if self._slots is not None:
            self._bench.device.free(self._slots)

    def block(self, samples: int, first: int) -> tuple[list[float], list[tuple[int, int]]]:
        """Take `samples` samples, the sets in turn from `first`: times in us, (set, checksum) of each."""
        slots = self._slot_words(samples)
        while len(self._events) < 2 * samples:
            self._events.append(self._bench.event())
        self._bench.reset_persisting()
        picks = [(first + i) % len(self._sets) for i in range(samples)]
        gated = self.gated and samples * self._sets[0].weight <= MAX_GATED
        if gated:
            self._bench.close_gate()
        try:
            for i, pick in enumerate(picks):
                timed = self._sets[pick]
                timed.restore()
                self._bench.record(self._events[2 * i])
                timed.run()
                self._bench.record(self._events[2 * i + 1])
                timed.add_checksum(slots.address + SLOT_BYTES * i, self._salt)
        finally:
            if gated:
                self._bench.open_gate()
        sums = self._read_words(slots, samples)
        times = [self._bench.elapsed_us(self._events[2 * i], self._events[2 * i + 1]) for i in range(samples)]
        return times, list(zip(picks, sums, strict=True))

    def chain(self, samples: int, count: int) -> tuple[list[float], list[tuple[int, int]]]:
        """Times of short plans: a graph of `count` x (put back, flush, plan), less one without the plan.

        Returns microseconds a plan for each of `samples` pairs of graphs, and the sets' checksums after.
        """
        with_plan, without = self._chain_graphs(count)
        while len(self._events) < 4 * samples:
            self._events.append(self._bench.event())
        self._bench.reset_persisting()
        self._bench.close_gate()
        try:
            for i in range(samples):
                for j, graph in enumerate((without, with_plan)):
                    self._bench.flush()
                    self._bench.record(self._events[4 * i + 2 * j])
                    graph.launch()
                    self._bench.record(self._events[4 * i + 2 * j + 1])
        finally:
            self._bench.open_gate()
        used = range(min(count, len(self._sets)))
        slots = self._slot_words(len(used))
        for i in used:
            self._sets[i].add_checksum(slots.address + SLOT_BYTES * i, self._salt)
        sums = self._read_words(slots, len(used))
        spans = [
            self._bench.elapsed_us(self._events[2 * i], self._events[2 * i + 1]) for i in range(2 * samples)
        ]
        times = [(spans[2 * i + 1] - spans[2 * i]) / count for i in range(samples)]
        return times, list(zip(used, sums, strict=True))

    def _chain_graphs(self, count: int) -> tuple[Graph, Graph]:
        if self._chains is None or self._chains[0] != count:

            def work(run: bool) -> Callable[[], None]:
                def queue() -> None:
                    for i in range(count):
                        timed = self._sets[i % len(self._sets)]
                        timed.put_back()
                        self._bench.flush()
                        if run:
                            timed.runnable.run()

                return queue

            if self._chains is not None:
                self._chains[1].close()
                self._chains[2].close()

            with_plan, without = self._bench.capture(work(True)), self._bench.capture(work(False))
            assert with_plan is not None and without is not None, "the parent asked for an uncapturable chain"
            self._chains = (count, with_plan, without)
        return self._chains[1], self._chains[2]

    def _slot_words(self, count: int) -> Memory:
        if self._slots is None or self._slots.size_bytes < SLOT_BYTES * count:
            self._slots = self._bench.device.allocate(SLOT_BYTES * max(64, count))
        self._bench.device.fill(self._slots, 0, SLOT_BYTES * count, b"\0")
        return self._slots

    def _read_words(self, slots: Memory, count: int) -> list[int]:
        data = self._bench.device.read(slots, 0, SLOT_BYTES * count)
        return [int(word) for word in data.view(np.uint64)]
