"""Runs at a bench size in a worker: inputs and outputs stay on the device, where they are compared and timed.

A slot is one input set. The outputs of its last run stay until the next run of any slot. Not covered: runs at
the test sizes, whose outputs are sent (`kcurate.judge.workers.inside.side_server`), taking a sample
(`kcurate.judge.workers.inside.sampler`).
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping, Sequence

from kcurate.backends.base import Module
from kcurate.backends.cuda.timer import GpuTimer
from kcurate.judge.workers.inside.arena import Arena
from kcurate.judge.workers.inside.execute import STARTS, Array, DeviceProgram, flat
from kcurate.judge.workers.inside.input_sets import (
    CLOSE_BYTES,
    Hidden,
    InputSet,
    add_fingerprint,
    hidden_copy,
    peek,
    read_close,
    region_of,
)
from kcurate.judge.workers.inside.sampler import DeviceSampler
from kcurate.judge.workers.protocol import Blob
from kcurate.judge.workers.requests import (
    Bring,
    Close,
    CloseAnswer,
    Compare,
    CompareAnswer,
    Done,
    Expect,
    Fetch,
    Forget,
    Hide,
    HideAnswer,
    Peek,
    ReadOutputs,
    Reply,
    Run,
    RunAnswer,
)
from kcurate.judge.workers.timing_requests import Block, BlockAnswer, Time, TimeAnswer
from kcurate.problem.compare import Magnitudes
from kcurate.problem.inputs.counter_based import Recipe
from kcurate.problem.inputs.spoiled import Spoiled
from kcurate.problem.ops import Program
from kcurate.problem.outputs import checked, close_bound
from kcurate.records import Problem, Side

DONE: Reply[Done] = Reply(Done())


class BenchSlots:
    """The input sets of one side at its bench sizes, and the sampler of those that are timed."""

    def __init__(self, timer: GpuTimer) -> None:
        self._timer = timer
        self._arena = Arena(timer)
        self._arena.own.add(timer.quantiles)
        self._slots: dict[str, InputSet] = {}
        self._timed: DeviceSampler | None = None

    def drop(self) -> None:
        """Free everything, for other processes too."""
        if self._timed is not None:
            self._timed.close()
            self._timed = None
        for slot in list(self._slots):
            self._slots.pop(slot).close()
        self._arena.close()
        self._timer.device.shrink()

    def fill(self, slot: str, program: Program, made: Mapping[str, Array | Recipe], spoiled: Spoiled) -> None:
        """Make a slot's inputs on the device."""
        if slot in self._slots:
            self._slots.pop(slot).close()
        self._slots[slot] = InputSet(self._timer, program, made, spoiled, self._arena)

    def run(self, asked: Run, module: Module, problem: Problem, side: Side) -> Reply[RunAnswer]:
        """Run a filled slot once for each salt; see `Run`."""
        assert asked.fingerprint is not None, "a run on the device"
        one, outputs = self._slots[asked.slot], checked(problem, side)
        damage: list[str] = []
        prints: list[tuple[int, ...]] = []
        drifted: list[str] = []
        blobs: dict[str, Blob] = {}
        own: dict[str, tuple[Hidden, Close, float]] = {}
        prepared: DeviceProgram | None = None
        for index, salt in enumerate(asked.salts):
            start = STARTS[index % len(STARTS)]
            if prepared is None or start != "kept":
                self._arena.renew()
                prepared, salt = one.place(module), self._arena.salt
            prepared.reset(salt, start)
            prepared.run()
            prepared.finish()
            pieces = [slot.memory for slot in prepared.slots.values()]
            damage += (*prepared.integrity(), *self._arena.damage(pieces))
            prints.append(self._prints(prepared, outputs.by_fingerprint, asked.fingerprint))
            if index == 0:
                own = {name: self._own(problem, prepared, name) for name in outputs.by_element}
            else:
                drifted += self._drifted(one, prepared, own)
            whole = prepared.outputs(prepared.slots.keys() - set(outputs.read_back))
            blobs |= {f"{index}/{name}": flat(array) for name, array in whole.items()}
        one.last = prepared
        for hidden, _, _ in own.values():
            if hidden.memory is not None:
                self._timer.device.free(hidden.memory)
        return Reply(RunAnswer(tuple(damage), tuple(prints), tuple(dict.fromkeys(drifted))), blobs)

    def _prints(self, prepared: DeviceProgram, names: Sequence[str], salt: int) -> tuple[int, ...]:
        """One fingerprint for each output."""

        def printed(name: str) -> int:
            return self._timer.sum_of(lambda word: add_fingerprint(self._timer, prepared, [name], word, salt))

        return tuple(printed(name) for name in names)

    def _own(self, problem: Problem, prepared: DeviceProgram, name: str) -> tuple[Hidden, Close, float]:
        """An output of the first run, and how far those of later runs may be off."""
        hiding = (secrets.randbits(64), secrets.randbits(64))
        hidden, size = hidden_copy(self._timer, region_of(prepared, name), hiding)
        whole = Magnitudes(size.largest, size.rms)
        sizes = prepared.program.sizes
        bound, norm = close_bound(problem, sizes, name, whole, size.count, exact=False)
        return hidden, Close(name, bound), norm

    def _drifted(
        self, one: InputSet, prepared: DeviceProgram, own: Mapping[str, tuple[Hidden, Close, float]]
    ) -> list[str]:
        """The outputs of which a later run is too far from the first."""
        if not own:
            return []
        close = [each for _, each, _ in own.values()]
        hidden = {name: copy for name, (copy, _, _) in own.items()}
        answers = self._compared(one, prepared, close, hidden)
        allowed = [norm for _, _, norm in own.values()]
        return [
            each.name
            for each, answer, norm in zip(close, answers, allowed, strict=True)
            if not answer.within(norm)
        ]

    def _compared(
        self, one: InputSet, prepared: DeviceProgram, close: Sequence[Close], hidden: Mapping[str, Hidden]
    ) -> tuple[CloseAnswer, ...]:
        device, size = self._timer.device, CLOSE_BYTES * len(close)
        found = device.allocate(size)
        device.fill(found, 0, size, b"\0")
        one.compare(prepared, close, hidden, found.address)
        answers = read_close(device.read(found, 0, size))
        device.free(found)
        return answers

    def _last(self, slot: str) -> DeviceProgram:
        last = self._slots[slot].last
        assert last is not None, "the slot has run"
        return last

    def hide(self, asked: Hide, _: Mapping[str, Blob]) -> Reply[HideAnswer]:
        """See `Hide`."""
        one = self._slots[asked.slot]
        return Reply(HideAnswer(tuple(one.hide(name, hiding) for name, hiding in asked.hiding.items())))

    def bring(self, asked: Bring, _: Mapping[str, Blob]) -> Reply[Done]:
        """See `Bring`."""
        for name in asked.names:
            self._slots[asked.slot].bring(name)
        return DONE

    def fetch(self, asked: Fetch, _: Mapping[str, Blob]) -> Reply[Done]:
        """See `Fetch`."""
        held = self._slots[asked.slot].hidden
        found = {name: one.host for name, one in held.items() if one.host is not None}
        for one in held.values():
            one.host = None
        return Reply(Done(), found)

    def expect(self, asked: Expect, blobs: Mapping[str, Blob]) -> Reply[Done]:
        """See `Expect`."""
        for name, data in blobs.items():
            self._slots[asked.slot].expect(name, asked.hiding[name], data)
        return DONE

    def compare(self, asked: Compare, _: Mapping[str, Blob]) -> Reply[CompareAnswer]:
        """See `Compare`."""
        one, hidden = self._slots[asked.slot], self._slots[asked.against].hidden
        return Reply(CompareAnswer(self._compared(one, self._last(asked.slot), asked.close, hidden)))

    def peek(self, asked: Peek, _: Mapping[str, Blob]) -> Reply[Done]:
        """See `Peek`."""
        last = self._last(asked.slot)
        return Reply(Done(), {str(number): peek(last, place) for number, place in enumerate(asked.places)})

    def read_outputs(self, asked: ReadOutputs, _: Mapping[str, Blob]) -> Reply[Done]:
        """See `ReadOutputs`."""
        last = self._last(asked.slot)
        found = last.outputs(last.slots.keys() - set(asked.names))
        return Reply(Done(), {name: flat(array) for name, array in found.items()})

    def forget(self, asked: Forget, _: Mapping[str, Blob]) -> Reply[Done]:
        """See `Forget`."""
        for slot in asked.slots:
            if slot not in self._slots:
                continue
            if asked.inputs:
                self._slots.pop(slot).close()
            else:
                self._slots[slot].forget_hidden()
        return DONE

    def time(self, asked: Time, module: Module) -> Reply[TimeAnswer]:
        """See `Time`."""
        for slot in asked.slots:
            self._slots[slot].watch(asked.close.get(slot, ()))
            self._slots[slot].places = asked.places.get(slot, ())
        self._timed = DeviceSampler(
            self._timer,
            self._arena,
            module,
            [self._slots[slot] for slot in asked.slots],
            asked.by_fingerprint,
            asked.read_back,
            salts=asked.fingerprints,
            local_bytes=module.compiled.local_bytes,
        )
        return Reply(self._timed.describe())

    def block(self, asked: Block, _: Mapping[str, Blob]) -> Reply[BlockAnswer]:
        """See `Block`."""
        assert self._timed is not None, "time comes first"
        samples, outputs = self._timed.block(asked.samples, asked.first)
        return Reply(BlockAnswer(tuple(samples)), {name: flat(array) for name, array in outputs.items()})
