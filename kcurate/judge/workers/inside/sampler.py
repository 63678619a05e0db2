"""Timing in a worker: takes one side's samples on the device.

Before each sample, outside the measured span, everything that the side writes is restored from copies on the
device (so outputs are poisoned again) and the L2 cache is flushed. The plan is queued behind a gate, so that
host time is not measured. Each sample's outputs are checksummed, which finds kernels that skip work when
timed. Our own memory is checksummed before and after (`witness`), so that a side cannot keep state there. Not
covered: the number of blocks, and the speedup (`kcurate.judge.timing.blocks`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from kcurate.backends.cuda.timer import MAX_GATED, GpuTimer
from kcurate.judge.workers.inside.input_sets import (
    WORD_BYTES,
    Region,
    Runnable,
    TimedInputSet,
    read_words,
    sum_regions,
    zeroed_words,
)
from kcurate.judge.workers.inside.sample_chains import Chain
from kcurate.judge.workers.messages import TimeAnswer

# A chain's clones may take this much memory, and one part in `CHAIN_SHARE` of what is free.
CHAIN_BYTES = 4 << 30
CHAIN_SHARE = 8


class DeviceSampler:
    """Takes samples of one side over all its input sets. `salt` makes checksums unpredictable."""

    def __init__(self, timer: GpuTimer, sets: Sequence[Runnable], salt: int) -> None:
        self._timer = timer
        self._sets = [TimedInputSet(timer, runnable) for runnable in sets]
        self._salt = salt
        self._events: list[tuple[Any, Any]] = []
        self._chain: Chain | None = None

    def describe(self) -> TimeAnswer:
        """What the parent needs to choose a method (see `TimeAnswer`)."""
        largest = max(timed.runnable.size_bytes() for timed in self._sets)
        nodes = max(timed.nodes for timed in self._sets)
        room_bytes = min(CHAIN_BYTES, self._timer.free_bytes() // CHAIN_SHARE)
        return TimeAnswer(
            chain_runs=min(room_bytes // max(1, largest), MAX_GATED // nodes),
            l2_bytes=self._timer.l2_bytes,
        )

    def checksums(self) -> list[int]:
        """Run every set once and checksum its outputs."""
        words = zeroed_words(self._timer, len(self._sets))
        for i, timed in enumerate(self._sets):
            timed.restore_and_flush()
            timed.run()
            timed.add_checksum(words.address + WORD_BYTES * i, self._salt)
        return read_words(self._timer, words, len(self._sets))

    def witness(self) -> int:
        """A checksum of our own memory beside the side's buffers."""
        copies = [copy for timed in self._sets for _, copy in timed.copies]
        regions = [Region(memory, 0, memory.size_bytes) for memory in (self._timer.scratch, *copies)]
        return sum_regions(self._timer, regions, self._salt ^ 0x51DE)

    def close(self) -> None:
        """Free everything except the kernels and the sets' own buffers."""
        if self._chain is not None:
            self._chain.close()
        for timed in self._sets:
            timed.close()
        for first, last in self._events:
            self._timer.drop_event(first)
            self._timer.drop_event(last)

    def block(self, samples: int, first: int) -> tuple[list[float], list[tuple[int, int]]]:
        """Take samples, cycling through the sets from `first`: times in us, (set, checksum) of each."""
        timer = self._timer
        words = zeroed_words(timer, samples)
        while len(self._events) < samples:
            self._events.append((timer.event(), timer.event()))
        timer.reset_persisting()
        picks = [(first + i) % len(self._sets) for i in range(samples)]
        for i, pick in enumerate(picks):
            timed = self._sets[pick]
            timed.restore_and_flush()
            timer.span(self._events[i], timed.run, gated=timed.gated)
            timed.add_checksum(words.address + WORD_BYTES * i, self._salt)
        sums = read_words(timer, words, samples)
        times = [timer.elapsed_us(start, end) for start, end in self._events[:samples]]
        return times, list(zip(picks, sums, strict=True))

    def last_clone(self, index: int) -> Runnable | None:
        """The last clone of one input set, as the last chain left it; None if there was no chain."""
        if self._chain is None:
            return None
        found = [
            clone for pick, clone in zip(self._chain.picks, self._chain.clones, strict=True) if pick == index
        ]
        return found[-1].runnable if found else None

    def build_chain(self, count: int) -> Chain:
        """The chain of `count` runs, built unless it exists."""
        if self._chain is None or len(self._chain.clones) != count:
            if self._chain is not None:
                self._chain.close()
            self._chain = Chain(self._timer, self._sets, count, self._salt)
        return self._chain
