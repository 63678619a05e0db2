"""Times of plans too short for an event pair: many runs as one CUDA graph, every run on buffers of its own.

Each run of the chain has a twin of one of the side's input sets, so that it meets a cold cache: all twins
are put back, the cache is flushed, then the graph runs between two events. What an event pair and the step
from run to run cost is known from empty kernels (`kcurate.backends.cuda.clock`) and subtracted by the parent.
Every run's outputs are summed after the block's last sample. Not covered: longer plans
(`kcurate.judge.workers.inside.sampler`).
"""

from __future__ import annotations

from collections.abc import Sequence

from kcurate.backends.base import Memory
from kcurate.backends.cuda.bench import Bench, Graph
from kcurate.judge.workers.inside.input_sets import SLOT_BYTES, TimedSet, read_words


class Chain:
    """`count` runs over twins of `sets`, in turn. `salt` as for the sets' own sums."""

    def __init__(self, bench: Bench, sets: Sequence[TimedSet], count: int, salt: int) -> None:
        self._bench = bench
        self._salt = salt
        self.picks = [i % len(sets) for i in range(count)]
        size_bytes = sum(sets[pick].runnable.size_bytes() for pick in self.picks)
        self._slab = bench.device.allocate(size_bytes)  # one piece: a call for each buffer takes long
        self._used_bytes = 0
        self.twins = [sets[pick].twin(self._piece) for pick in self.picks]
        put_back, runs = bench.capture(self._put_back), bench.capture(self._run)
        assert put_back is not None and runs is not None, "the parent asked for an uncapturable chain"
        self._restore_graph: Graph = put_back
        self._runs_graph: Graph = runs
        self._slots = bench.device.allocate(SLOT_BYTES * count)
        sums = bench.capture(self._sum)
        assert sums is not None, "sums wait for nothing"
        self._sums_graph: Graph = sums
        self._events = [(bench.event(), bench.event())]

    def _piece(self, size_bytes: int) -> Memory:
        """The next part of the slab."""
        start = self._used_bytes
        self._used_bytes += -(-size_bytes // 256) * 256
        assert self._used_bytes <= self._slab.size_bytes, "a twin is larger than its set"
        return Memory(self._slab.address + start, size_bytes)

    def _put_back(self) -> None:
        for twin in self.twins:
            twin.put_back()

    def _run(self) -> None:
        for twin in self.twins:
            twin.runnable.run()

    def _sum(self) -> None:
        self._bench.device.fill(self._slots, 0, self._slots.size_bytes, b"\0")
        for i, twin in enumerate(self.twins):
            twin.add_checksum(self._slots.address + SLOT_BYTES * i, self._salt)

    def block(self, samples: int) -> tuple[list[float], list[tuple[int, int]]]:
        """Microseconds a run for each of `samples` chains, and (set, sum) of every run of the last one."""
        bench = self._bench
        while len(self._events) < samples:
            self._events.append((bench.event(), bench.event()))
        bench.reset_persisting()
        for events in self._events[:samples]:
            if self._restore_graph.nodes:
                self._restore_graph.launch()
            bench.flush()
            bench.span(events, self._runs_graph.launch)
        self._sums_graph.launch()
        sums = read_words(bench, self._slots, len(self.twins))
        spans = [bench.elapsed_us(first, last) for first, last in self._events[:samples]]
        return [span / len(self.twins) for span in spans], list(zip(self.picks, sums, strict=True))

    def close(self) -> None:
        """Give everything back."""
        for graph in (self._restore_graph, self._runs_graph, self._sums_graph):
            graph.close()
        for first, last in self._events:
            self._bench.drop_event(first)
            self._bench.drop_event(last)
        for twin in self.twins:
            twin.close()
        self._bench.device.free(self._slab)
        self._bench.device.free(self._slots)
