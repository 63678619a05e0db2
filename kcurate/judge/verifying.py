"""The verification stage of a case: which inputs both sides run on, and what their outputs must show.

Every test size with nominal inputs, the first also with other distributions, then the bench size on GPUs.
Each case runs `REPEATS` times on poisons that differ: outputs must agree with the reference side's, be
bitwise the same each time (unless the side declares that rounding may differ), and harm nothing around them.
Not covered: when two outputs agree (`kcurate.judge.verify`), what runs where (`kcurate.judge.running`).
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from kcurate.judge.case import Case, Ruling
from kcurate.judge.gpu_lock import GpuLock
from kcurate.judge.protocol import Frame
from kcurate.judge.running import RunningSide
from kcurate.judge.timed import TimingJob
from kcurate.problem import program
from kcurate.problem.compare import compare
from kcurate.problem.dtypes import numpy_dtype
from kcurate.problem.expressions import evaluate
from kcurate.records import SIDES, Buffer, Outcome, Problem
from kcurate.records.pair import SideName

REPEATS = 3
VARIATIONS = ("nominal", "shifted", "wide", "ties")
# Input sets that timing rotates through: fewer when they are large.
TIMED_SETS = 4
TIMED_SETS_LARGE = 2
LARGE_BYTES = 32 << 20

Outputs = Mapping[str, Any]


@dataclass(frozen=True)
class Trial:
    """One setting that both sides run on."""

    slot: str
    sizes: Mapping[str, int]
    seed: int
    variation: str

    @property
    def text(self) -> str:
        """For a person."""
        sizes = ", ".join(f"{name}={value}" for name, value in self.sizes.items())
        return f"{sizes}; {self.variation} inputs"


def trials(problem: Problem, seed: int) -> Iterator[Trial]:
    """The settings of one case; every seed follows from the case's secret one."""
    rng = random.Random(seed)
    for index, sizes in enumerate(problem.sizes.test):
        for variation in VARIATIONS if index == 0 else VARIATIONS[:1]:
            yield Trial(f"test{index}-{variation}", sizes, rng.getrandbits(48), variation)


def timed_trials(problem: Problem, seed: int) -> list[Trial]:
    """The input sets that are timed, at the bench size."""
    rng = random.Random(seed ^ 0x5EED)
    size = sum(_logical_bytes(buffer, problem.sizes.bench) for buffer in problem.buffers.values())
    count = TIMED_SETS_LARGE if size > LARGE_BYTES else TIMED_SETS
    return [Trial(f"bench{i}", problem.sizes.bench, rng.getrandbits(48), "nominal") for i in range(count)]


def _logical_bytes(buffer: Buffer, sizes: Mapping[str, int]) -> int:
    count = int(np.prod([evaluate(extent, sizes) for extent in buffer.shape], dtype=np.int64))
    return count * numpy_dtype(buffer.dtype).itemsize


class Verification:
    """Both sides of one case being compared. `reference` is the side whose outputs count as right."""

    def __init__(
        self,
        case: Case,
        sides: Mapping[SideName, RunningSide],
        reference: SideName,
        seed: int,
        lock: GpuLock,
    ) -> None:
        assert case.candidate.problem is not None
        self.case = case
        self.problem: Problem = case.candidate.problem
        self.sides = sides
        self.reference = reference
        self.other: SideName = "fast" if reference == "slow" else "slow"
        self.lock = lock
        self.seed = seed
        self._poisons = random.Random(seed ^ 0xBAD)

    def run(self) -> None:
        """Run every trial.

        Raises:
            Ruling: something is wrong with a side.
        """
        for trial in trials(self.problem, self.seed):
            self.trial(trial)
            self._ask_both("drop", {"keep": []})
        self.case.passed("outputs", "poison", "redzones", "inputs_intact", "deterministic")

    def trial(self, trial: Trial) -> None:
        """Run one trial on both sides and compare."""
        self.case.seeds.append(trial.seed)
        body = {
            "slot": trial.slot,
            "sizes": dict(trial.sizes),
            "seed": trial.seed,
            "variation": trial.variation,
        }
        self._ask_both("generate", body)
        firsts: dict[SideName, Outputs] = {}
        for _ in range(REPEATS):
            request = {"slot": trial.slot, "poison": self._poisons.getrandbits(32) | 1}
            with self.lock.shared():
                frames = self._ask_both("run", request)
            for side in SIDES:
                outputs = self.outputs(trial, side, frames[side])
                if side in firsts:
                    self._same_again(trial, side, firsts[side], outputs)
                else:
                    firsts[side] = outputs
            self.agree(trial, firsts[self.reference], firsts[self.other])

    def _ask_both(self, op: str, body: Mapping[str, Any]) -> dict[SideName, Frame]:
        """Ask the reference first, so that a fault of it is seen as its own."""
        for side in (self.reference, self.other):
            self.sides[side].ask(op, body)
        return {side: self.sides[side].answer() for side in (self.reference, self.other)}

    def outputs(self, trial: Trial, side: SideName, frame: Frame) -> Outputs:
        """A side's outputs as arrays; what it harmed is a mismatch."""
        harmed = [str(line) for line in frame.body["integrity"]]
        if harmed:
            raise Ruling(Outcome.MISMATCH, f"{'; '.join(harmed[:3])} ({trial.text})", side=side)
        bound = program.bind(self.problem, getattr(self.case.candidate, side), trial.sizes)
        found = {}
        for name, buffer in self.problem.buffers.items():
            if buffer.role in ("out", "inout"):
                blob, shape = frame.blobs[name], bound.buffers[name].shape
                found[name] = blob.view(numpy_dtype(buffer.dtype)).reshape(shape)
        return found

    def _same_again(self, trial: Trial, side: SideName, first: Outputs, again: Outputs) -> None:
        loose = getattr(self.case.candidate, side).nondeterministic
        for name, values in again.items():
            if name in loose:
                continue
            valid = self._valid(name, first)
            a, b = first[name].reshape(-1)[:valid], values.reshape(-1)[:valid]
            if a.tobytes() != b.tobytes():
                raise Ruling(
                    Outcome.NONDETERMINISTIC,
                    f"{name} differs from run to run, or depends on what lay in it before ({trial.text})",
                    side=side,
                )

    def _valid(self, name: str, outputs: Outputs) -> int | None:
        tolerance = self.problem.buffers[name].tolerance
        if tolerance is None or tolerance.valid is None:
            return None
        return int(outputs[tolerance.valid].reshape(-1)[0])

    def agree(self, trial: Trial, expected: Outputs, got: Outputs) -> None:
        """Compare the other side's outputs with the reference's."""
        for name, values in expected.items():
            buffer = self.problem.buffers[name]
            terms = evaluate(buffer.tolerance.terms, trial.sizes) if buffer.tolerance else 1
            valid = self._valid(name, expected)
            result = compare(values, got[name], buffer.dtype, buffer.tolerance, terms=terms, valid=valid)
            if not result.ok:
                raise Ruling(Outcome.MISMATCH, f"{name}: {result.detail} ({trial.text})", side=self.other)

    def prepare_timing(self) -> TimingJob:
        """Run the timed trials once, compared, and leave them prepared in the workers."""
        chosen = timed_trials(self.problem, self.seed)
        for trial in chosen:
            self.trial(trial)
        self.case.passed("bench_outputs")
        bytes_by_role: dict[str, int] = {}
        for buffer in self.problem.buffers.values():
            size = _logical_bytes(buffer, self.problem.sizes.bench)
            bytes_by_role[buffer.role] = bytes_by_role.get(buffer.role, 0) + size
        moved = sum(size for role, size in bytes_by_role.items() if role != "scratch")
        return TimingJob(
            slots=tuple(trial.slot for trial in chosen),
            seed=self.seed,
            poison=self._poisons.getrandbits(32) | 1,
            written_bytes=bytes_by_role.get("out", 0),
            all_bytes=moved + bytes_by_role.get("inout", 0),
            deterministic={side: not getattr(self.case.candidate, side).nondeterministic for side in SIDES},
        )

    def recheck(self, job: TimingJob) -> None:
        """Compare what the last timed runs left behind."""
        for trial in timed_trials(self.problem, self.seed):
            with self.lock.shared():
                frames = self._ask_both("read", {"slot": trial.slot})
            found = {side: self.outputs(trial, side, frames[side]) for side in SIDES}
            self.agree(trial, found[self.reference], found[self.other])
        self.case.passed("timed_outputs_compared")
