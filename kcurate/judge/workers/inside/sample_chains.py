"""Samples of plans too short for an event pair: many runs in one CUDA graph, each on its own buffers.

Each run uses its own clone of an input set, so that it starts with a cold cache: all clones are restored, the
cache is flushed, and the graph runs between two events. Every run's outputs are checksummed after the block's
last sample. Not covered: longer plans (`kcurate.judge.workers.inside.sampler`), the overheads that the parent
subtracts (`kcurate.backends.cuda.clock`).
"""

from __future__ import annotations

from collections.abc import Sequence

from kcurate.backends.base import Memory
from kcurate.backends.cuda.timer import GpuTimer, Graph
from kcurate.judge.workers.inside.input_sets import WORD_BYTES, TimedInputSet, read_words


class Chain:
    """A graph of `count` runs over clones of `sets` in turn. `salt`: that of the sets' own checksums."""

    def __init__(self, timer: GpuTimer, sets: Sequence[TimedInputSet], count: int, salt: int) -> None:
        self._timer = timer
        self._salt = salt
        self.picks = [i % len(sets) for i in range(count)]
        size_bytes = sum(sets[pick].runnable.size_bytes() for pick in self.picks)
        self._slab = timer.device.allocate(size_bytes)  # one allocation: one per buffer is slow
        self._used_bytes = 0
        self.clones = [sets[pick].clone(self._piece) for pick in self.picks]
        restored, runs = timer.capture(self._restore), timer.capture(self._run)
        assert restored is not None and runs is not None, "the parent asked for an uncapturable chain"
        self._restore_graph: Graph = restored
        self._runs_graph: Graph = runs
        self._words = timer.device.allocate(WORD_BYTES * count)
        sums = timer.capture(self._sum)
        assert sums is not None, "checksums are capturable"
        self._sums_graph: Graph = sums
        self._events = [(timer.event(), timer.event())]

    def _piece(self, size_bytes: int) -> Memory:
        """The next `size_bytes` of the slab."""
        start = self._used_bytes
        self._used_bytes += -(-size_bytes // 256) * 256
        assert self._used_bytes <= self._slab.size_bytes, "a clone is larger than its set"
        return Memory(self._slab.address + start, size_bytes)

    def _restore(self) -> None:
        for clone in self.clones:
            clone.restore()

    def _run(self) -> None:
        for clone in self.clones:
            clone.runnable.run()

    def _sum(self) -> None:
        self._timer.device.fill(self._words, 0, self._words.size_bytes, b"\0")
        for i, clone in enumerate(self.clones):
            clone.add_checksum(self._words.address + WORD_BYTES * i, self._salt)

    def block(self, samples: int) -> tuple[list[float], list[tuple[int, int]]]:
        """Microseconds per run of each of `samples` chains, and (set, checksum) of the last one's runs."""
        timer = self._timer
        while len(self._events) < samples:
            self._events.append((timer.event(), timer.event()))
        timer.reset_persisting()
        for events in self._events[:samples]:
            if self._restore_graph.nodes:
                self._restore_graph.launch()
            timer.flush()
            timer.span(events, self._runs_graph.launch)
        self._sums_graph.launch()
        sums = read_words(timer, self._words, len(self.clones))
        spans = [timer.elapsed_us(first, last) for first, last in self._events[:samples]]
        return [span / len(self.clones) for span in spans], list(zip(self.picks, sums, strict=True))

    def close(self) -> None:
        """Free graphs, events and memory."""
        for graph in (self._restore_graph, self._runs_graph, self._sums_graph):
            graph.close()
        for first, last in self._events:
            self._timer.drop_event(first)
            self._timer.drop_event(last)
        for clone in self.clones:
            clone.close()
        self._timer.device.free(self._slab)
        self._timer.device.free(self._words)
