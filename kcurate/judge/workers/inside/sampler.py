"""Timing in a worker: takes one side's samples on the device, each from a state that the side cannot prepare.

Before each sample, outside the measured span: the buffers get new places, all memory around and between them
and every output gets new noise, inputs are copied in, the module's variables get their initial values, shared
and local memory are overwritten, and the L2 cache is flushed. The plan is queued behind a gate, so that host
time is not measured. After each sample all its outputs are checked on the device, and after the last one our
own memory and what lies around the buffers. Not covered: the number of blocks, and the speedup
(`kcurate.judge.timing.blocks`).
"""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from typing import Any

import numpy as np

from kcurate.backends.base import Module
from kcurate.backends.cuda.arrays import WORD_BYTES
from kcurate.backends.cuda.timer import MAX_GATED, GpuTimer, Graph
from kcurate.backends.torch_module import TorchModule
from kcurate.judge.workers.inside.arena import Arena
from kcurate.judge.workers.inside.execute import DeviceProgram
from kcurate.judge.workers.inside.input_sets import (
    InputSet,
    add_fingerprint,
    read_range,
    unpack_answers,
)
from kcurate.judge.workers.timing_requests import SampleAnswer, TimeAnswer
from kcurate.problem.ops import WhileOp

# A plan of more operations is queued as a graph, which would take longer to record anew than a sample.
MOVED_OPERATIONS = 64


class Work:
    """A placed input set and how its plan is queued: one operation after the other, or as a graph."""

    def __init__(self, timer: GpuTimer, prepared: DeviceProgram) -> None:
        self.prepared = prepared
        ops = prepared.program.ops
        self.fixed = isinstance(prepared.module, TorchModule) or len(ops) > MOVED_OPERATIONS
        waits = any(isinstance(op, WhileOp) for op in ops)
        self.graph: Graph | None = timer.capture(self._run) if self.fixed and not waits else None
        queued = self.graph.nodes if self.graph is not None else prepared.queued_operations
        self.gated = not waits and (not self.fixed or (queued is not None and queued <= MAX_GATED))
        self._bound_after = dict(prepared.bound)

    def _run(self) -> None:
        self.prepared.bound = dict(self.prepared.slots)
        self.prepared.run()

    def queue(self) -> None:
        """Queue the plan."""
        if self.graph is not None and self.graph.nodes:
            self.graph.launch()
            self.prepared.bound = dict(self._bound_after)
        else:
            self._run()

    def close(self) -> None:
        """Destroy the graph."""
        if self.graph is not None:
            self.graph.close()


class DeviceSampler:
    """Takes samples of one side over all its input sets. `salts` make each one's fingerprints unpredictable.

    `by_fingerprint`: outputs that must be the same in every run; `read_back`: outputs that are returned.
    `local_bytes`: the largest local memory frame of the side's kernels.
    """

    def __init__(
        self,
        timer: GpuTimer,
        arena: Arena,
        module: Module,
        sets: Sequence[InputSet],
        by_fingerprint: Sequence[str],
        read_back: Sequence[str],
        *,
        salts: Sequence[int],
        local_bytes: int,
    ) -> None:
        self._timer, self._arena, self._sets, self._salts = timer, arena, sets, tuple(salts)
        self._module = module
        self._by_fingerprint, self._read_back = tuple(by_fingerprint), frozenset(read_back)
        self._local_bytes = local_bytes
        self._events = (timer.event(), timer.event())
        self._found = timer.device.allocate(WORD_BYTES + max(input_set.watched_bytes for input_set in sets))
        self._works: dict[int, Work] = {}

    def describe(self) -> TimeAnswer:
        """What the parent needs (see `TimeAnswer`); records the graphs of all sets."""
        works = [self._work(pick) for pick in range(len(self._sets))]
        return TimeAnswer(self._timer.l2_bytes, works[0].graph is not None)

    def close(self) -> None:
        """Free everything except the kernels, the arena and the sets."""
        for work in self._works.values():
            work.close()
        self._works.clear()
        for event in self._events:
            self._timer.drop_event(event)
        self._timer.device.free(self._found)

    def block(self, samples: int, first: int) -> tuple[list[SampleAnswer], dict[str, Any]]:
        """Take samples, cycling through the sets from `first`; arrays as in `BlockAnswer`.

        The last sample also says whether the side wrote outside its outputs.
        """
        answers: list[SampleAnswer] = []
        arrays: dict[str, Any] = {}
        for i in range(samples):
            pick = (first + i) % len(self._sets)
            answer, whole = self._sample(pick, last=i == samples - 1)
            answers.append(answer)
            arrays |= {f"{i}{name}": array for name, array in whole.items()}
        return answers, arrays

    def _work(self, pick: int) -> Work:
        """The set's work, at new places unless the plan is long or trusted (PyTorch binds to its places)."""
        work = self._works.get(pick)
        if work is not None:
            if work.fixed:
                return work
            work.close()
        prepared = self._sets[pick].at_new_addresses(self._module)
        if isinstance(prepared.module, TorchModule):  # what it does once must not be part of a graph
            prepared.reset(self._arena.salt)
            prepared.run()
        self._works[pick] = Work(self._timer, prepared)
        return self._works[pick]

    def _sample(self, pick: int, *, last: bool) -> tuple[SampleAnswer, dict[str, Any]]:
        timer, chosen = self._timer, self._sets[pick]
        work = self._work(pick)
        prepared = work.prepared
        timer.reset_persisting()
        self._arena.renew()
        prepared.reset(self._arena.salt)
        timer.scrub(self._local_bytes)
        timer.flush()
        timer.span(self._events, work.queue, gated=work.gated)
        prepared.finish()
        timer.device.fill(self._found, 0, self._found.size_bytes, b"\0")
        add_fingerprint(timer, prepared, self._by_fingerprint, self._found.address, self._salts[pick])
        chosen.compare_watched(prepared, self._found.address + WORD_BYTES)
        data = timer.device.read(self._found, 0, WORD_BYTES + chosen.watched_bytes)
        pieces = [slot.memory for slot in prepared.slots.values()]
        damage = (*prepared.integrity(), *self._arena.damage(pieces)) if last else ()
        outputs = prepared.outputs(prepared.slots.keys() - self._read_back)
        arrays = {f"/{name}": array for name, array in outputs.items()}
        place = secrets.randbelow(len(chosen.peek_ranges)) if chosen.peek_ranges else -1
        if place >= 0:
            arrays[""] = read_range(prepared, chosen.peek_ranges[place])
        answer = SampleAnswer(
            timer.elapsed_us(*self._events),
            pick,
            int(data[:WORD_BYTES].view(np.uint64)[0]),
            unpack_answers(data[WORD_BYTES:]),
            damage,
            place,
        )
        return answer, arrays
