"""The verification stage of a case: which inputs both sides run on, and what their outputs must show.

Every test size with nominal inputs, the first also with other distributions, then the bench size on GPUs.
Each trial runs `REPEATS` times on poisons that differ, also between the sides: outputs must agree with the
reference side's, be the same bit for bit each time (unless the side declares that rounding may differ), and
harm nothing around them. Not covered: when two outputs agree (`kcurate.judge.agreement`), what runs where
(`kcurate.judge.workers.side_proxy`), answers that must not pass (`kcurate.judge.negative_controls`).
"""

from __future__ import annotations

import contextlib
import math
import random
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from kcurate import time_limits
from kcurate.judge.agreement import (
    Outputs,
    differs,
    identical,
    in_order,
    logical_bytes,
    output_names,
    shape,
    summable,
    valid_count,
    with_counts,
)
from kcurate.judge.case import Case, Ruling
from kcurate.judge.gpu_lock import GpuLock
from kcurate.judge.timing.decision import TimingJob
from kcurate.judge.workers.messages import Generate, Read, Reply, Run, RunAnswer
from kcurate.judge.workers.side_proxy import RunningSide
from kcurate.problem.dtypes import numpy_dtype
from kcurate.problem.inputs.contents import VARIATIONS
from kcurate.records import SIDES, Outcome, Problem
from kcurate.records.pair import SideName, other_side

REPEATS = 3
# Input sets that timing rotates through.
TIMED_SETS = 2
# What a worker's description of a run may take beside the outputs.
FRAME_SLACK_BYTES = 1 << 20


# What a worker answers when it has run a trial.
Ran = Reply[RunAnswer]


@dataclass(frozen=True)
class Trial:
    """One setting that both sides run on."""

    slot: str
    sizes: Mapping[str, int]
    seed: int
    variation: str

    @property
    def request(self) -> Generate:
        """What a worker is asked for: the inputs of this trial."""
        return Generate(self.slot, self.sizes, self.seed, self.variation)

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
    if problem.sizes.test:
        yield Trial("test0-again", problem.sizes.test[0], rng.getrandbits(48), VARIATIONS[0])


def timed_trials(problem: Problem, seed: int) -> list[Trial]:
    """The input sets that are timed, at the bench size."""
    rng = random.Random(seed ^ 0x5EED)
    sizes = problem.sizes.bench
    return [Trial(f"bench{i}", sizes, rng.getrandbits(48), VARIATIONS[0]) for i in range(TIMED_SETS)]


def patience_s(backend: str, reference_s: float) -> float:
    """Seconds that a side may still take for a trial when the reference took `reference_s`."""
    return max(time_limits.TRIAL_S, time_limits.TRIAL_RATIO * reference_s) if backend == "cuda" else math.inf


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
        self.order: tuple[SideName, SideName] = (reference, other_side(reference))
        self.lock = lock
        self.seed = seed
        self.tried: list[Trial] = []
        self.expected: dict[str, Outputs] = {}
        self._poisons = random.Random(seed ^ 0xBAD)
        self._summed = {side: summable(self.problem, getattr(case.candidate, side)) for side in SIDES}

    def run(self) -> None:
        """Run every trial; `tried` then names them, `expected` holds the reference's outputs by slot.

        Raises:
            Ruling: something is wrong with a side.
        """
        self.tried = list(trials(self.problem, self.seed))
        # One hold for all: they are small, and each hold may have to wait until another judge has its times.
        with self.lock.shared():
            self._series(self.tried, self._keep, contextlib.nullcontext)
        self.case.passed("outputs", "poison", "redzones", "inputs_intact", "deterministic")

    def _keep(self, trial: Trial, outputs: Mapping[SideName, Outputs], _: Mapping[SideName, int]) -> None:
        self.expected[trial.slot] = outputs[self.reference]

    def _series(
        self,
        series: Sequence[Trial],
        done: Callable[[Trial, Mapping[SideName, Outputs], Mapping[SideName, int]], None],
        hold: Callable[[], contextlib.AbstractContextManager[None]],
        *,
        keep: bool = False,
    ) -> None:
        """Run trials on both sides, each run within `hold`, and compare; the next inputs are made while we
        compare.
        """
        for at, trial in enumerate(series):
            self.case.seeds.append(trial.seed)
            if at == 0:
                self._ask_generate(trial)
            for side in self._lacking(trial):
                self.sides[side].prepared()
            with hold():
                for side in self.order:
                    self.sides[side].ask(self._run_request(trial, side, keep))
                frames = self._answers(trial)
            if at + 1 < len(series):
                self._ask_generate(series[at + 1])
            outputs = {side: self._first(trial, side, frames[side]) for side in self.order}
            self.agree(trial, outputs)
            for side in self.order:
                self._steady(trial, side, frames[side], outputs[side], keep)
            done(trial, outputs, {side: self._sum(side, frames[side]) for side in SIDES})

    def _ask_generate(self, trial: Trial) -> None:
        for side in self._lacking(trial):
            self.sides[side].ask(trial.request)

    def _lacking(self, trial: Trial) -> list[SideName]:
        """The sides whose inputs were not made ahead."""
        return [side for side in self.order if (trial.slot, trial.seed) not in self.sides[side].made]

    def _run_request(self, trial: Trial, side: SideName, keep: bool) -> Run:
        poisons = tuple(self._poisons.getrandbits(32) | 1 for _ in range(REPEATS))
        return Run(trial.slot, poisons, self._summed[side] if keep else (), keep)

    def _answers(self, trial: Trial) -> dict[SideName, Ran]:
        """Both sides' answers; the other side's limit follows from how long the reference's took to come."""
        started_s = time.monotonic()
        reference, other = self.order
        first = self._answer(trial, reference)
        waited_s = time.monotonic() - started_s
        limit_s = patience_s(self.case.environment.backend, waited_s)
        return {reference: first, other: self._answer(trial, other, limit_s)}

    def _answer(self, trial: Trial, side: SideName, limit_s: float = math.inf) -> Ran:
        size = sum(logical_bytes(self.problem.buffers[name], trial.sizes) for name in self._names())
        return self.sides[side].answer(REPEATS * size + FRAME_SLACK_BYTES, limit_s)

    def _names(self) -> tuple[str, ...]:
        return output_names(self.problem)

    def _sum(self, side: SideName, frame: Ran) -> int:
        with self.sides[side].sense():
            return frame.body.sums[0]

    def _first(self, trial: Trial, side: SideName, frame: Ran) -> Outputs:
        """The first run's outputs, once no run has harmed anything."""
        self._unharmed(trial, side, frame)
        return self._outputs(trial, side, frame, 0, self._names())

    def _steady(self, trial: Trial, side: SideName, frame: Ran, first: Outputs, keep: bool) -> None:
        """Whether every run has shown the same as the first."""
        summed = frozenset(self._summed[side] if keep else ())
        if len(set(frame.body.sums)) != 1:
            raise self._unsteady(trial, side, ", ".join(sorted(summed)))
        rest = [name for name in self._names() if name not in summed]
        loose = [name for name in rest if name in getattr(self.case.candidate, side).nondeterministic]
        for index in range(1, REPEATS):
            again = self._outputs(trial, side, frame, index, rest)
            for name in rest:
                if name not in loose and not self._same(name, first, again):
                    raise self._unsteady(trial, side, name)
            self._agree_with_itself(trial, side, first, {**first, **again}, loose)

    def _unharmed(self, trial: Trial, side: SideName, frame: Ran) -> None:
        if harmed := frame.body.integrity:
            what = "; ".join(dict.fromkeys(harmed[:3]))
            raise Ruling(Outcome.MISMATCH, f"{what} ({trial.text})", side=side)

    def _outputs(
        self, trial: Trial, side: SideName, frame: Ran, run: int, names: Sequence[str]
    ) -> dict[str, Any]:
        with self.sides[side].sense():
            return {
                name: frame.blobs[f"{run}/{name}"]
                .view(numpy_dtype(self.problem.buffers[name].dtype))
                .reshape(shape(self.problem.buffers[name], trial.sizes))
                for name in names
            }

    def _unsteady(self, trial: Trial, side: SideName, what: str) -> Ruling:
        text = f"{what} differs from run to run, or depends on what lay in it before ({trial.text})"
        return Ruling(Outcome.NONDETERMINISTIC, text, side=side)

    def _same(self, name: str, first: Outputs, again: Outputs) -> bool:
        valid = valid_count(self.problem, name, first)
        one, other = (
            in_order(self.problem, name, outputs[name].reshape(-1)[:valid]) for outputs in (first, again)
        )
        return identical(one, other)

    def _agree_with_itself(
        self, trial: Trial, side: SideName, first: Outputs, again: Outputs, loose: Sequence[str]
    ) -> None:
        """Where rounding may differ from run to run, nothing more may."""
        for name in loose:
            wrong = differs(self.problem, trial.sizes, name, first, again)
            if wrong is not None:
                raise self._unsteady(trial, side, f"{name} ({wrong})")

    def agree(self, trial: Trial, outputs: Mapping[SideName, Outputs]) -> None:
        """Compare the other side's outputs with the reference's."""
        expected, got = (outputs[side] for side in self.order)
        for name in got:
            wrong = differs(self.problem, trial.sizes, name, expected, got)
            if wrong is not None:
                raise Ruling(Outcome.MISMATCH, f"{name}: {wrong} ({trial.text})", side=self.order[1])

    def prepare_timing(self) -> TimingJob:
        """Run the timed trials, compared, and leave them prepared in the workers."""
        chosen = timed_trials(self.problem, self.seed)
        sums: dict[SideName, list[int]] = {side: [] for side in SIDES}

        def note(_: Trial, __: object, found: Mapping[SideName, int]) -> None:
            for side in SIDES:
                sums[side].append(found[side])

        self._series(chosen, note, self.lock.shared, keep=True)
        self.case.passed("bench_outputs")
        bytes_by_role: dict[str, int] = {}
        for buffer in self.problem.buffers.values():
            size = logical_bytes(buffer, self.problem.sizes.bench)
            bytes_by_role[buffer.role] = bytes_by_role.get(buffer.role, 0) + size
        moved = sum(size for role, size in bytes_by_role.items() if role != "scratch")
        return TimingJob(
            slots=tuple(trial.slot for trial in chosen),
            seed=self.seed,
            poison=self._poisons.getrandbits(32) | 1,
            written_bytes=bytes_by_role.get("out", 0),
            all_bytes=moved + bytes_by_role.get("inout", 0),
            summed=dict(self._summed),
            sums={side: tuple(words) for side, words in sums.items()},
        )

    def recheck(self, job: TimingJob) -> None:
        """Look at what the last timed runs left behind; outputs that sums cannot vouch for are compared."""
        whole = with_counts(
            self.problem,
            [name for name in self._names() if any(name not in job.summed[side] for side in SIDES)],
        )
        chosen = timed_trials(self.problem, self.seed)
        summed = sorted(set(self._names()) - set(whole))
        with self.lock.shared():
            frames = [self._read_back(trial, summed) for trial in chosen]
        for trial, read in zip(chosen, frames, strict=True):
            found = {}
            for side in self.order:
                self._unharmed(trial, side, read[side])
                found[side] = self._outputs(trial, side, read[side], 0, whole)
            if whole:
                self.agree(trial, found)
        self.case.passed("timed_outputs_compared")

    def _read_back(self, trial: Trial, summed: Sequence[str]) -> dict[SideName, Ran]:
        for side in self.order:
            self.sides[side].ask(Read(trial.slot, tuple(summed)))
        return {side: self._answer(trial, side) for side in self.order}
