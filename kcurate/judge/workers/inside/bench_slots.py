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
    ANSWER_BYTES,
    Copies,
    EncryptedCopy,
    InputSet,
    add_fingerprint,
    encrypted_copy,
    read_range,
    region_of,
    unpack_answers,
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
# An output of the first run, how far elements of later runs may be off, and the norm of all differences.
FirstOutput = tuple[EncryptedCopy, Close, float]


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

    def fill(
        self, slot: str, program: Program, inputs: Mapping[str, Array | Recipe], spoiled: Spoiled
    ) -> None:
        """Generate a slot's inputs on the device."""
        if slot in self._slots:
            self._slots.pop(slot).close()
        self._slots[slot] = InputSet(self._timer, program, inputs, spoiled, self._arena)

    def run(self, request: Run, module: Module, problem: Problem, side: Side) -> Reply[RunAnswer]:
        """Run a filled slot once for each salt; see `Run`."""
        assert request.fingerprint is not None, "a run on the device"
        input_set, outputs = self._slots[request.slot], checked(problem, side)
        damage: list[str] = []
        prints: list[tuple[int, ...]] = []
        drifted: list[str] = []
        blobs: dict[str, Blob] = {}
        first: dict[str, FirstOutput] = {}
        prepared: DeviceProgram | None = None
        for index, asked_salt in enumerate(request.salts):
            start, salt = STARTS[index % len(STARTS)], asked_salt
            if prepared is None or start != "kept":
                self._arena.renew()
                # `renew` has just made the noise of this salt, also between the buffers: `reset` need not.
                prepared, salt = input_set.at_new_addresses(module), self._arena.salt
            prepared.reset(salt, start)
            prepared.run()
            prepared.finish()
            pieces = [slot.memory for slot in prepared.slots.values()]
            damage += (*prepared.integrity(), *self._arena.damage(pieces))
            prints.append(self._prints(prepared, outputs.by_fingerprint, request.fingerprint))
            if index == 0:
                first = {name: self._first_output(problem, prepared, name) for name in outputs.by_element}
            else:
                drifted += self._drifted(input_set, prepared, first)
            whole = prepared.outputs(prepared.slots.keys() - set(outputs.read_back))
            blobs |= {f"{index}/{name}": flat(array) for name, array in whole.items()}
        input_set.last = prepared
        for copy, _, _ in first.values():
            if copy.memory is not None:
                self._timer.device.free(copy.memory)
        return Reply(RunAnswer(tuple(damage), tuple(prints), tuple(dict.fromkeys(drifted))), blobs)

    def _prints(self, prepared: DeviceProgram, names: Sequence[str], salt: int) -> tuple[int, ...]:
        """One fingerprint for each output."""

        def printed(name: str) -> int:
            return self._timer.sum_of(lambda word: add_fingerprint(self._timer, prepared, [name], word, salt))

        return tuple(printed(name) for name in names)

    def _first_output(self, problem: Problem, prepared: DeviceProgram, name: str) -> FirstOutput:
        """An output of the first run, and how far those of later runs may be off."""
        hiding = (secrets.randbits(64), secrets.randbits(64))
        copy, size = encrypted_copy(self._timer, region_of(prepared, name), hiding)
        whole = Magnitudes(size.largest, size.rms)
        sizes = prepared.program.sizes
        bound, norm = close_bound(problem, sizes, name, whole, size.count, exact=False)
        return copy, Close(name, bound), norm

    def _drifted(
        self, input_set: InputSet, prepared: DeviceProgram, first: Mapping[str, FirstOutput]
    ) -> list[str]:
        """The outputs of a later run that differ too much from the first run's."""
        if not first:
            return []
        bounds = [bound for _, bound, _ in first.values()]
        expected = {name: copy for name, (copy, _, _) in first.items()}
        answers = self._compared(input_set, prepared, bounds, expected)
        norms = [norm for _, _, norm in first.values()]
        return [
            output.name
            for output, answer, norm in zip(bounds, answers, norms, strict=True)
            if not answer.within(norm)
        ]

    def _compared(
        self, input_set: InputSet, prepared: DeviceProgram, bounds: Sequence[Close], expected: Copies
    ) -> tuple[CloseAnswer, ...]:
        device, size = self._timer.device, ANSWER_BYTES * len(bounds)
        answers = device.allocate(size)
        device.fill(answers, 0, size, b"\0")
        input_set.compare(prepared, bounds, expected, answers.address)
        data = device.read(answers, 0, size)
        device.free(answers)
        return unpack_answers(data)

    def _last(self, slot: str) -> DeviceProgram:
        last = self._slots[slot].last
        assert last is not None, "the slot has run"
        return last

    def hide(self, request: Hide, _: Mapping[str, Blob]) -> Reply[HideAnswer]:
        """See `Hide`."""
        input_set = self._slots[request.slot]
        return Reply(
            HideAnswer(tuple(input_set.hide(name, hiding) for name, hiding in request.hiding.items()))
        )

    def bring(self, request: Bring, _: Mapping[str, Blob]) -> Reply[Done]:
        """See `Bring`."""
        for name in request.names:
            self._slots[request.slot].bring(name)
        return DONE

    def fetch(self, request: Fetch, _: Mapping[str, Blob]) -> Reply[Done]:
        """See `Fetch`."""
        copies = self._slots[request.slot].encrypted
        arrays = {name: copy.host for name, copy in copies.items() if copy.host is not None}
        for copy in copies.values():
            copy.host = None
        return Reply(Done(), arrays)

    def expect(self, request: Expect, blobs: Mapping[str, Blob]) -> Reply[Done]:
        """See `Expect`."""
        for name, data in blobs.items():
            self._slots[request.slot].expect(name, request.hiding[name], data)
        return DONE

    def compare(self, request: Compare, _: Mapping[str, Blob]) -> Reply[CompareAnswer]:
        """See `Compare`."""
        input_set, expected = self._slots[request.slot], self._slots[request.against].encrypted
        answers = self._compared(input_set, self._last(request.slot), request.close, expected)
        return Reply(CompareAnswer(answers))

    def peek(self, request: Peek, _: Mapping[str, Blob]) -> Reply[Done]:
        """See `Peek`."""
        last = self._last(request.slot)
        arrays = {str(number): read_range(last, elements) for number, elements in enumerate(request.places)}
        return Reply(Done(), arrays)

    def read_outputs(self, request: ReadOutputs, _: Mapping[str, Blob]) -> Reply[Done]:
        """See `ReadOutputs`."""
        last = self._last(request.slot)
        outputs = last.outputs(last.slots.keys() - set(request.names))
        return Reply(Done(), {name: flat(array) for name, array in outputs.items()})

    def forget(self, request: Forget, _: Mapping[str, Blob]) -> Reply[Done]:
        """See `Forget`."""
        for slot in request.slots:
            if slot not in self._slots:
                continue
            if request.inputs:
                self._slots.pop(slot).close()
            else:
                self._slots[slot].forget_copies()
        return DONE

    def time(self, request: Time, module: Module) -> Reply[TimeAnswer]:
        """See `Time`."""
        for slot in request.slots:
            self._slots[slot].watch(request.close.get(slot, ()))
            self._slots[slot].peek_ranges = request.places.get(slot, ())
        self._timed = DeviceSampler(
            self._timer,
            self._arena,
            module,
            [self._slots[slot] for slot in request.slots],
            request.by_fingerprint,
            request.read_back,
            salts=request.fingerprints,
            local_bytes=module.compiled.local_bytes,
        )
        return Reply(self._timed.describe())

    def block(self, request: Block, _: Mapping[str, Blob]) -> Reply[BlockAnswer]:
        """See `Block`."""
        assert self._timed is not None, "time comes first"
        samples, outputs = self._timed.block(request.samples, request.first)
        return Reply(BlockAnswer(tuple(samples)), {name: flat(array) for name, array in outputs.items()})
