"""The half of timing that runs in a worker: one side's samples, taken on the device.

Before each sample, outside the measured span: what the side writes is put back (from copies on the device,
so outputs are poisoned again), and the L2 cache is flushed. The plan is queued behind a gate, so the host's
speed does not show. Each sample's outputs get a checksum on the device: a kernel that behaves
only when it is looked at is seen; and memory of ours that no candidate knows of is summed before and after
(`witness`), so that it cannot keep a note there. Not covered: how many blocks, and what the numbers mean
(`kcurate.judge.timing.blocks`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from kcurate.backends.cuda.bench import MAX_GATED, Bench
from kcurate.judge.workers.inside.input_sets import (
    SLOT_BYTES,
    Region,
    Runnable,
    TimedSet,
    read_words,
    slot_words,
    sum_regions,
)
from kcurate.judge.workers.inside.sample_chains import Chain
from kcurate.judge.workers.messages import TimeAnswer

# A chain's twins may take this much memory, and this part of what is free: other judges need some too.
CHAIN_BYTES = 4 << 30
CHAIN_SHARE = 8


class TimedSide:
    """All input sets of one side. `salt` makes checksums unpredictable."""

    def __init__(self, bench: Bench, sets: Sequence[Runnable], salt: int) -> None:
        self._bench = bench
        self._sets = [TimedSet(bench, runnable) for runnable in sets]
        self._salt = salt
        self._events: list[tuple[Any, Any]] = []
        self._chain: Chain | None = None

    def describe(self) -> TimeAnswer:
        """What the parent needs to choose a method; `chain_runs`: the longest chain there is room for."""
        largest = max(timed.runnable.size_bytes() for timed in self._sets)
        nodes = max(timed.nodes for timed in self._sets)
        room_bytes = min(CHAIN_BYTES, self._bench.free_bytes() // CHAIN_SHARE)
        return TimeAnswer(
            chain_runs=min(room_bytes // max(1, largest), MAX_GATED // nodes),
            l2_bytes=self._bench.l2_bytes,
        )

    def sums(self) -> list[int]:
        """Run every set once; the checksum of its outputs."""
        slots = slot_words(self._bench, len(self._sets))
        for i, timed in enumerate(self._sets):
            timed.restore()
            timed.run()
            timed.add_checksum(slots.address + SLOT_BYTES * i, self._salt)
        return read_words(self._bench, slots, len(self._sets))

    def witness(self) -> int:
        """A sum over our own memory that lies beside the side's buffers."""
        copies = [copy for timed in self._sets for _, copy in timed.copies]
        regions = [Region(memory, 0, memory.size_bytes) for memory in (self._bench.scratch, *copies)]
        return sum_regions(self._bench, regions, self._salt ^ 0x51DE)

    def close(self) -> None:
        """Give everything back but the kernels and the sets' own buffers."""
        if self._chain is not None:
            self._chain.close()
        for timed in self._sets:
            timed.close()
        for first, last in self._events:
            self._bench.drop_event(first)
            self._bench.drop_event(last)

    def block(self, samples: int, first: int) -> tuple[list[float], list[tuple[int, int]]]:
        """Take `samples` samples, the sets in turn from `first`: times in us, (set, checksum) of each."""
        bench = self._bench
        slots = slot_words(bench, samples)
        while len(self._events) < samples:
            self._events.append((bench.event(), bench.event()))
        bench.reset_persisting()
        picks = [(first + i) % len(self._sets) for i in range(samples)]
        for i, pick in enumerate(picks):
            timed = self._sets[pick]
            timed.restore()
            bench.span(self._events[i], timed.run, gated=timed.gated)
            timed.add_checksum(slots.address + SLOT_BYTES * i, self._salt)
        sums = read_words(bench, slots, samples)
        times = [bench.elapsed_us(start, end) for start, end in self._events[:samples]]
        return times, list(zip(picks, sums, strict=True))

    def chained(self, index: int) -> Runnable | None:
        """A twin of one input set as the last chain left it; None when there was no chain."""
        if self._chain is None:
            return None
        found = [
            twin for pick, twin in zip(self._chain.picks, self._chain.twins, strict=True) if pick == index
        ]
        return found[-1].runnable if found else None

    def ready(self, count: int) -> Chain:
        """The chain of `count` runs, made unless it is there."""
        if self._chain is None or len(self._chain.twins) != count:
            if self._chain is not None:
                self._chain.close()
            self._chain = Chain(self._bench, self._sets, count, self._salt)
        return self._chain

    def chain(self, samples: int, count: int) -> tuple[list[float], list[tuple[int, int]]]:
        """Times of a short plan, `count` runs a sample: microseconds a run, (set, checksum) of each run."""
        return self.ready(count).block(samples)
