"""The verification stage: what is required of both sides' outputs at the test sizes.

A nominal trial runs `REPEATS` times per side: outputs start as noise, as zeros, and as the previous run left
them, with new noise in the redzones around the buffers. Outputs must agree with the reference's (if it sums
many terms: with those of the reference with wider accumulators) and be bit-identical across repeats (unless
the side declares them nondeterministic); redzones and inputs must stay intact. Not covered:
the choice of trials (`kcurate.judge.trials`), comparing outputs (`kcurate.judge.agreement`), the bench size
(`kcurate.judge.at_bench`), wrong answers that must fail (`kcurate.judge.negative_controls`).
"""

from __future__ import annotations

import itertools
import math
import random
import time
from collections.abc import Mapping, Sequence
from typing import Any

from kcurate.core import time_limits
from kcurate.judge.agreement import Outputs, arrays_of, differs, same_bits
from kcurate.judge.case import Case, Ruling
from kcurate.judge.gpu_lock import GpuLock
from kcurate.judge.reference_runs import REPLY_SLACK_BYTES, WIDE, WideReference, extra_run
from kcurate.judge.trials import REPEATS, Trial, literal_trials, trials
from kcurate.judge.workers.requests import Reply, Run, RunAnswer
from kcurate.judge.workers.side_proxy import SideProxy
from kcurate.problem.inputs.contents import thinned
from kcurate.problem.outputs import checked, output_names, outputs_bytes
from kcurate.records import SIDES, Outcome, Problem
from kcurate.records.pair import SideName, other_side

UNSTABLE = "differs between runs, or depends on uninitialised memory"
SALT_BITS = 63
# How many trials are requested ahead, so that workers do not wait for this process between trials.
TRIALS_AHEAD = 2

RunReply = Reply[RunAnswer]


def trial_limit_s(backend: str, reference_s: float) -> float:
    """The time limit of a side for a trial in seconds, if the reference took `reference_s`."""
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
        self.answered: dict[str, Mapping[SideName, Outputs]] = {}
        self.wide = wide
        self._salts = random.Random(seed ^ 0xBAD)
        self.checked = {side: checked(self.problem, getattr(case.candidate, side)) for side in SIDES}

    def run(self) -> None:
        """Run every trial. Afterwards `tried` has the trials, `expected` the reference's outputs by slot,
        `answered` both sides'.

        Raises:
            Ruling: a side failed a trial.
        """
        sides = [getattr(self.case.candidate, side) for side in SIDES]
        self.tried = [
            *trials(self.problem, self.seed),
            *literal_trials(self.problem, sides, self.seed),
        ]
        # One lock for the runs of all trials: they are short, and each acquisition may wait for another
        # judge's timing. On the emulator a wrong side ends at its first trial.
        at_once = len(self.tried) if self.case.environment.backend == "cuda" else 1
        for start in range(0, len(self.tried), at_once):
            self._run_trials(self.tried[start : start + at_once])
        self.case.passed("outputs", "poison", "redzones", "inputs_intact", "deterministic")

    def _run_trials(self, series: Sequence[Trial]) -> None:
        """Run trials on both sides, then compare."""
        for trial in series:
            self.case.seeds.append(trial.seed)
            self.make_inputs(trial)
        replies, wide = [], []
        with self.lock.shared():
            to_request = iter(series)
            for trial in itertools.islice(to_request, self._ahead):
                self._ask(trial)
            for trial in series:
                if (next_trial := next(to_request, None)) is not None:
                    self._ask(next_trial)
                replies.append(self.answers(trial))
                wide.append(self._wide_outputs(trial, replies[-1][self.reference]))
        for trial, reply, better in zip(series, replies, wide, strict=True):
            self._judge_trial(trial, reply, better)

    @property
    def _ahead(self) -> int:
        """How many trials are requested before the first reply; none if a wide run must follow each trial."""
        return TRIALS_AHEAD if self.wide is None else 0

    def _ask(self, trial: Trial) -> None:
        for side in self.order:
            self.sides[side].ask(Run(trial.slot, self.salts(trial.runs)))

    def _judge_trial(self, trial: Trial, reply: Mapping[SideName, RunReply], wide: Outputs | None) -> None:
        """Compare both sides' runs of one trial."""
        outputs = {side: self._first_outputs(trial, side, reply[side]) for side in self.order}
        plain = outputs[self.reference]
        better = self.wide.accepted(trial.sizes, plain, wide) if self.wide is not None else {}
        self.agree(trial, outputs, better)
        for side in self.order:
            self.check_repeats(trial, side, reply[side], outputs[side])
        self.expected[trial.slot] = plain
        self.answered[trial.slot] = outputs

    def _wide_outputs(self, trial: Trial, plain: RunReply) -> Outputs | None:
        """The reference's outputs with wider accumulators; None if the trial does not need them."""
        if self.wide is None or plain.body.integrity or not self.wide.wanted(trial.sizes):
            return None
        with extra_run(WIDE):
            self.sides[self.reference].ask(Run(trial.slot, self.salts(1), text="wide"))
            reply = self.answer(trial, self.reference)
            return self.outputs(trial, self.reference, reply, 0, self.output_names())

    def make_inputs(self, trial: Trial) -> None:
        """Have both sides generate a trial's inputs, unless prefetched; returns when they are ready."""
        self._request_inputs(trial)
        for side in self._without_inputs(trial):
            self.sides[side].wait_for_inputs()

    def _request_inputs(self, trial: Trial) -> None:
        for side in self._without_inputs(trial):
            self.sides[side].ask(trial.request)

    def _without_inputs(self, trial: Trial) -> list[SideName]:
        """The sides whose inputs were not prefetched."""
        return [side for side in self.order if (trial.slot, trial.seed) not in self.sides[side].prefetched]

    def salts(self, count: int) -> tuple[int, ...]:
        """Random salts for the noise in memory, one per run."""
        return tuple(self._salts.getrandbits(SALT_BITS) for _ in range(count))

    def answers(self, trial: Trial) -> dict[SideName, RunReply]:
        """Both sides' replies; the reference's time sets the other side's limit."""
        started_s = time.monotonic()
        reference, other = self.order
        reference_reply = self.answer(trial, reference)
        waited_s = time.monotonic() - started_s
        limit_s = trial_limit_s(self.case.environment.backend, waited_s)
        return {reference: reference_reply, other: self.answer(trial, other, limit_s)}

    def answer(
        self, trial: Trial, side: SideName, limit_s: float = math.inf, runs: int = REPEATS
    ) -> RunReply:
        """A side's reply to a trial with this many runs."""
        size = outputs_bytes(self.problem, trial.sizes, self.output_names())
        return self.sides[side].answer(runs * size + REPLY_SLACK_BYTES, limit_s)

    def output_names(self) -> tuple[str, ...]:
        """The names of the problem's outputs."""
        return output_names(self.problem)

    def _first_outputs(self, trial: Trial, side: SideName, reply: RunReply) -> Outputs:
        """The first run's outputs, after checking that no run wrote outside its outputs."""
        self.check_integrity(trial, side, reply)
        return self.outputs(trial, side, reply, 0, self.output_names())

    def check_repeats(
        self,
        trial: Trial,
        side: SideName,
        reply: RunReply,
        first: Outputs,
        runs: range | None = None,
        how: str = UNSTABLE,
    ) -> None:
        """Raise a ruling unless these runs of the reply (None: all later ones) agree with the first."""
        names = self.output_names()
        tolerant = [name for name in names if name in getattr(self.case.candidate, side).nondeterministic]
        for index in runs or range(1, trial.runs):
            again = self.outputs(trial, side, reply, index, names)
            for name in names:
                if name not in tolerant and not same_bits(self.problem, name, first, again):
                    raise self.nondeterministic(trial, side, name, how)
            self.agree_with_itself(trial, side, first, {**first, **again}, tolerant)

    def check_integrity(self, trial: Trial, side: SideName, reply: RunReply) -> None:
        """Raise a ruling if a run wrote outside its outputs."""
        if damage := reply.body.integrity:
            places = "; ".join(dict.fromkeys(damage[:3]))
            raise Ruling(Outcome.MISMATCH, f"{places} ({trial.text})", side=side)

    def outputs(
        self, trial: Trial, side: SideName, reply: RunReply, run: int, names: Sequence[str]
    ) -> dict[str, Any]:
        """The outputs of one run in a reply, as arrays."""
        with self.sides[side].untrusted_answer():
            return arrays_of(self.problem, reply.blobs, trial.sizes, run, names)

    def nondeterministic(self, trial: Trial, side: SideName, output: str, how: str = UNSTABLE) -> Ruling:
        """The ruling that this output (its name, perhaps with a detail) differs between runs."""
        text = f"{output} {how} ({trial.text})"
        return Ruling(Outcome.NONDETERMINISTIC, text, side=side)

    def agree_with_itself(
        self, trial: Trial, side: SideName, first: Outputs, again: Outputs, tolerant: Sequence[str]
    ) -> None:
        """Raise a ruling if an output declared nondeterministic differs between runs beyond its tolerance."""
        for name in tolerant:
            wrong = differs(self.problem, trial.sizes, name, first, again)
            if wrong is not None:
                raise self.nondeterministic(trial, side, f"{name} ({wrong})")

    def exact(self, trial: Trial) -> bool:
        """Whether the reference is nearly exact in a trial, because most terms of its sums are zero."""
        return trial.variation == "structured" and thinned(self.problem, trial.sizes)

    def agree(self, trial: Trial, outputs: Mapping[SideName, Outputs], better: Outputs) -> None:
        """Compare the other side's outputs with the wide ones in `better`, else with the reference's.

        A side that returns the reference's exact bits agrees, however much both round.

        Raises:
            Ruling: `mismatch`.
        """
        plain, got = (outputs[side] for side in self.order)
        expected = {**plain, **better}
        for name in got:
            if name in better and same_bits(self.problem, name, plain, got):
                continue
            exact = name in better or self.exact(trial)
            wrong = differs(self.problem, trial.sizes, name, expected, got, exact=exact)
            if wrong is not None:
                raise Ruling(Outcome.MISMATCH, f"{name}: {wrong} ({trial.text})", side=self.order[1])
