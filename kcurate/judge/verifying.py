"""The verification stage: which inputs both sides run on, and what is required of their outputs.

Each trial runs `REPEATS` times per side: outputs start with noise, with zeros, and as the run before left
them, and the memory around the buffers always holds other noise. Outputs must agree with the reference (where
it sums many terms: with the reference compiled again with wider accumulation), be bit-identical across
repeats (unless the side declares them nondeterministic), and leave redzones and inputs intact. Not covered:
the choice of trials (`kcurate.judge.trials`), comparing outputs (`kcurate.judge.agreement`), the workers
(`kcurate.judge.workers.side_proxy`), wrong answers that must fail (`kcurate.judge.negative_controls`).
"""

from __future__ import annotations

import contextlib
import math
import random
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from kcurate import time_limits
from kcurate.judge.agreement import (
    Outputs,
    arrays_of,
    checked,
    close_bound,
    differs,
    identical,
    logical_bytes,
    output_names,
    sorted_if_unordered,
    valid_count,
    with_valid_counts,
)
from kcurate.judge.case import Case, Ruling
from kcurate.judge.gpu_lock import GpuLock
from kcurate.judge.reference_runs import REPLY_SLACK_BYTES, WideReference
from kcurate.judge.timing.decision import Expected, TimingJob
from kcurate.judge.trials import Trial, bench_trials, timed_trials, trials
from kcurate.judge.workers.messages import Close, Reply, Run, RunAnswer
from kcurate.judge.workers.protocol import Blob
from kcurate.judge.workers.side_proxy import SideProxy
from kcurate.problem.inputs.contents import thinned
from kcurate.records import SIDES, BenchSize, Outcome, Problem
from kcurate.records.pair import SideName, other_side

REPEATS = 3
SALT_BITS = 63

RunReply = Reply[RunAnswer]


def trial_limit_s(backend: str, reference_s: float) -> float:
    """How long a side may take for a trial, in seconds, when the reference took `reference_s`."""
    return max(time_limits.TRIAL_S, time_limits.TRIAL_RATIO * reference_s) if backend == "cuda" else math.inf


class Verification:
    """Verifies both sides of one case. `reference` is the side whose outputs count as correct."""

    def __init__(
        self,
        case: Case,
        sides: Mapping[SideName, SideProxy],
        reference: SideName,
        seed: int,
        lock: GpuLock,
        wide: WideReference | None = None,
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
        self.wide = wide
        self._better: dict[str, Outputs] = {}
        self._salts = random.Random(seed ^ 0xBAD)
        self._checked = {side: checked(self.problem, getattr(case.candidate, side)) for side in SIDES}

    def run(self) -> None:
        """Run every trial. Afterwards `tried` has the trials, `expected` the reference's outputs by slot.

        Raises:
            Ruling: a side failed a trial.
        """
        self.tried = list(trials(self.problem, self.seed))
        # One lock for all trials: they are short, and each acquisition may wait for another judge's timing.
        with self.lock.shared():
            self._run_trials(self.tried, self._store_expected, contextlib.nullcontext)
        self.case.passed("outputs", "poison", "redzones", "inputs_intact", "deterministic")

    def run_at_bench(self) -> list[Trial]:
        """Run the trials at the bench size that are not timed; `expected` has the reference's outputs.

        Raises:
            Ruling: a side failed a trial.
        """
        chosen = bench_trials(self.problem, self.seed)
        self._run_trials(chosen, self._store_expected, self.lock.shared)
        if chosen:
            self.case.passed("bench_structured")
        return chosen

    def _store_expected(
        self, trial: Trial, outputs: Mapping[SideName, Outputs], _: Mapping[SideName, int]
    ) -> None:
        self.expected[trial.slot] = outputs[self.reference]

    def _run_trials(
        self,
        series: Sequence[Trial],
        done: Callable[[Trial, Mapping[SideName, Outputs], Mapping[SideName, int]], None],
        hold: Callable[[], contextlib.AbstractContextManager[None]],
        *,
        keep: bool = False,
    ) -> None:
        """Run each trial on both sides inside `hold`, then compare while the next inputs are generated."""
        for at, trial in enumerate(series):
            self.case.seeds.append(trial.seed)
            if at == 0:
                self._request_inputs(trial)
            if self.wide is not None:
                self.wide.prefetch(trial.request, hold)
            for side in self._without_inputs(trial):
                self.sides[side].wait_for_inputs()
            with hold():
                for side in self.order:
                    self.sides[side].ask(self._run_request(trial, side, keep))
                replies = self._answers(trial)
            if at + 1 < len(series):
                self._request_inputs(series[at + 1])
            outputs = {side: self._first_outputs(trial, side, replies[side]) for side in self.order}
            self._run_wide(trial, outputs[self.reference], hold)
            self.agree(trial, outputs)
            for side in self.order:
                self._check_repeats(trial, side, replies[side], outputs[side])
            done(trial, outputs, {side: self._sum(side, replies[side]) for side in SIDES})

    def _run_wide(
        self, trial: Trial, plain: Outputs, hold: Callable[[], contextlib.AbstractContextManager[None]]
    ) -> None:
        """Get the reference's outputs with wider accumulation, where the trial is worth it."""
        if self.wide is not None and self.wide.wanted(trial.sizes):
            self._better[trial.slot] = self.wide.outputs(trial.request, plain, hold)

    def _request_inputs(self, trial: Trial) -> None:
        for side in self._without_inputs(trial):
            self.sides[side].ask(trial.request)

    def _without_inputs(self, trial: Trial) -> list[SideName]:
        """The sides whose inputs were not prefetched."""
        return [side for side in self.order if (trial.slot, trial.seed) not in self.sides[side].prefetched]

    def _run_request(self, trial: Trial, side: SideName, keep: bool) -> Run:
        salts = tuple(self._salts.getrandbits(SALT_BITS) for _ in range(REPEATS))
        return Run(trial.slot, salts, self._checked[side].summed if trial.at_bench else (), keep)

    def _answers(self, trial: Trial) -> dict[SideName, RunReply]:
        """Both sides' replies; the reference's time sets the other side's limit."""
        started_s = time.monotonic()
        reference, other = self.order
        first = self._answer(trial, reference)
        waited_s = time.monotonic() - started_s
        limit_s = trial_limit_s(self.case.environment.backend, waited_s)
        return {reference: first, other: self._answer(trial, other, limit_s)}

    def _answer(self, trial: Trial, side: SideName, limit_s: float = math.inf) -> RunReply:
        size = sum(logical_bytes(self.problem.buffers[name], trial.sizes) for name in self._output_names())
        return self.sides[side].answer(REPEATS * size + REPLY_SLACK_BYTES, limit_s)

    def _output_names(self) -> tuple[str, ...]:
        return output_names(self.problem)

    def _sum(self, side: SideName, reply: RunReply) -> int:
        with self.sides[side].untrusted_answer():
            return reply.body.sums[0]

    def _first_outputs(self, trial: Trial, side: SideName, reply: RunReply) -> Outputs:
        """The first run's outputs, after checking that no run wrote outside its outputs."""
        self._check_integrity(trial, side, reply)
        return self._outputs(trial, side, reply, 0, self._output_names())

    def _check_repeats(self, trial: Trial, side: SideName, reply: RunReply, first: Outputs) -> None:
        """Raise a ruling unless every later run agrees with the first."""
        summed = frozenset(self._checked[side].summed if trial.at_bench else ())
        if len(set(reply.body.sums)) != 1:
            raise self._nondeterministic(trial, side, ", ".join(sorted(summed)))
        rest = [name for name in self._output_names() if name not in summed]
        tolerant = [name for name in rest if name in getattr(self.case.candidate, side).nondeterministic]
        for index in range(1, REPEATS):
            again = self._outputs(trial, side, reply, index, rest)
            for name in rest:
                if name not in tolerant and not self._identical(name, first, again):
                    raise self._nondeterministic(trial, side, name)
            self._agree_with_itself(trial, side, first, {**first, **again}, tolerant)

    def _check_integrity(self, trial: Trial, side: SideName, reply: RunReply) -> None:
        if damage := reply.body.integrity:
            what = "; ".join(dict.fromkeys(damage[:3]))
            raise Ruling(Outcome.MISMATCH, f"{what} ({trial.text})", side=side)

    def _outputs(
        self, trial: Trial, side: SideName, reply: RunReply, run: int, names: Sequence[str]
    ) -> dict[str, Any]:
        with self.sides[side].untrusted_answer():
            return arrays_of(self.problem, reply.blobs, trial.sizes, run, names)

    def _nondeterministic(self, trial: Trial, side: SideName, what: str) -> Ruling:
        text = f"{what} differs between runs, or depends on uninitialised memory ({trial.text})"
        return Ruling(Outcome.NONDETERMINISTIC, text, side=side)

    def _identical(self, name: str, first: Outputs, again: Outputs) -> bool:
        valid = valid_count(self.problem, name, first)
        one, other = (
            sorted_if_unordered(self.problem, name, outputs[name].reshape(-1)[:valid])
            for outputs in (first, again)
        )
        return identical(one, other)

    def _agree_with_itself(
        self, trial: Trial, side: SideName, first: Outputs, again: Outputs, tolerant: Sequence[str]
    ) -> None:
        """Outputs that may round differently from run to run must stay within their tolerance."""
        for name in tolerant:
            wrong = differs(self.problem, trial.sizes, name, first, again)
            if wrong is not None:
                raise self._nondeterministic(trial, side, f"{name} ({wrong})")

    def exact(self, trial: Trial) -> bool:
        """Whether the reference can round but little, because most terms of its sums are zero."""
        return trial.variation == "structured" and thinned(self.problem, trial.sizes)

    def agree(self, trial: Trial, outputs: Mapping[SideName, Outputs]) -> None:
        """Compare the other side's outputs with the reference's, or with the wider reference's.

        Raises:
            Ruling: `mismatch`.
        """
        plain, got = (outputs[side] for side in self.order)
        better = self._better.get(trial.slot, {})
        expected = {**plain, **better}
        for name in got:
            exact = name in better or self.exact(trial)
            wrong = differs(self.problem, trial.sizes, name, expected, got, exact=exact)
            if wrong is not None:
                raise Ruling(Outcome.MISMATCH, f"{name}: {wrong} ({trial.text})", side=self.order[1])

    def prepare_timing(self, size: BenchSize | None = None) -> TimingJob:
        """Run and compare the timed trials of a bench size (None: the headline); the workers keep the inputs.

        Raises:
            Ruling: a side failed a trial.
        """
        chosen = timed_trials(self.problem, self.seed, size)
        sums: dict[SideName, list[int]] = {side: [] for side in SIDES}
        expected: dict[SideName, list[tuple[Expected, ...]]] = {side: [] for side in SIDES}
        wanted: list[Outputs] = []

        def collect(trial: Trial, outputs: Mapping[SideName, Outputs], found: Mapping[SideName, int]) -> None:
            loose = with_valid_counts(
                self.problem, [name for one in self._checked.values() for name in one.close + one.whole]
            )
            best = {**outputs[self.reference], **self._better.get(trial.slot, {})}
            wanted.append({name: best[name] for name in loose})
            for side in SIDES:
                sums[side].append(found[side])
                close = self._checked[side].close
                expected[side].append(tuple(self._expected(trial, name, wanted[-1]) for name in close))

        self._run_trials(chosen, collect, self.lock.shared, keep=True)
        self.case.passed("bench_outputs")
        bytes_by_role: dict[str, int] = {}
        for buffer in self.problem.buffers.values():
            size_bytes = logical_bytes(buffer, chosen[0].sizes)
            bytes_by_role[buffer.role] = bytes_by_role.get(buffer.role, 0) + size_bytes
        moved = sum(size_bytes for role, size_bytes in bytes_by_role.items() if role != "scratch")

        def agree(slot: int, side: SideName, blobs: Mapping[str, Blob]) -> str | None:
            return self._whole_differs(chosen[slot], side, blobs, wanted[slot])

        return TimingJob(
            slots=tuple(trial.slot for trial in chosen),
            seed=self.seed,
            written_bytes=bytes_by_role.get("out", 0),
            all_bytes=moved + bytes_by_role.get("inout", 0),
            summed={side: self._checked[side].summed for side in SIDES},
            sums={side: tuple(words) for side, words in sums.items()},
            expected=expected,
            whole={side: tuple(with_valid_counts(self.problem, self._checked[side].whole)) for side in SIDES},
            agree=agree,
        )

    def _expected(self, trial: Trial, name: str, outputs: Outputs) -> Expected:
        exact = name in self._better.get(trial.slot, {})
        bound, norm = close_bound(self.problem, trial.sizes, name, outputs, exact=exact)
        return Expected(Close(name, bound), norm, outputs[name])

    def _whole_differs(
        self, trial: Trial, side: SideName, blobs: Mapping[str, Blob], wanted: Outputs
    ) -> str | None:
        """How a timed run's outputs that were read back differ from the reference's; None if they agree."""
        parts = {f"0/{name}": blob for name, blob in blobs.items()}
        got = arrays_of(self.problem, parts, trial.sizes, 0, list(blobs))
        for name in self._checked[side].whole:
            if wrong := differs(self.problem, trial.sizes, name, wanted, got):
                return f"{name}: {wrong}"
        return None
