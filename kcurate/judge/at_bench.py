"""Trials at a bench size: data stays on the device, and most outputs are compared by fingerprint.

An output with the same fingerprint on both sides agrees. Otherwise an encrypted ("hidden") copy of the
reference's output goes to the other side's worker, which compares it with its own on the device. What differs
there is read back and decided by `kcurate.judge.agreement`, as at the test sizes. Our kernels compute
fingerprints and differences in the process of the side that they check, where a hostile side might tamper
with them; so random samples of outputs are also copied to the host by the driver, which the side cannot
intercept. The GPU's lock is held while the device works, not while workers transfer data. Not covered: which
trials there are (`kcurate.judge.trials`), what is then timed (`kcurate.judge.timing_job`).
"""

from __future__ import annotations

import math
import secrets
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from kcurate.backends.noise import noise_bytes
from kcurate.judge.agreement import Outputs, arrays_of, differs
from kcurate.judge.case import Ruling
from kcurate.judge.negative_controls import Spoiling
from kcurate.judge.reference_runs import CHANGED_INPUTS, REPLY_SLACK_BYTES, WIDE, accumulated, extra_run
from kcurate.judge.trials import Trial, bench_trials
from kcurate.judge.verifying import SALT_BITS, RunReply, Verification
from kcurate.judge.workers import requests
from kcurate.judge.workers.protocol import Blob
from kcurate.judge.workers.side_proxy import SideProxy, on_both_sides
from kcurate.problem.compare import Bound, Magnitudes, widened
from kcurate.problem.dtypes import is_float, numpy_dtype
from kcurate.problem.outputs import (
    close_bound,
    logical_bytes,
    output_names,
    outputs_bytes,
    shape,
    unordered,
    with_companions,
)
from kcurate.records import BenchSize, Outcome, Problem
from kcurate.records.pair import SideName

# Samples of each output, and elements of each sample.
PARTS, ELEMENTS = 8, 64


def random_places(problem: Problem, trial: Trial) -> tuple[requests.Place, ...]:
    """Random samples of the outputs that are compared in full and in order."""
    picked = []
    for name in output_names(problem):
        buffer, rule = problem.buffers[name], problem.buffers[name].tolerance
        size = math.prod(shape(buffer, trial.sizes))
        if size and (rule is None or (rule.order == "exact" and rule.valid is None)):
            count = min(ELEMENTS, size)
            picked += [requests.Place(name, secrets.randbelow(size - count + 1), count) for _ in range(PARTS)]
    return tuple(picked)


def peek(
    proxy: SideProxy, problem: Problem, trial: Trial, places: Sequence[requests.Place]
) -> tuple[Blob, ...]:
    """The bytes of these samples of a side's outputs after its last run.

    Raises:
        Ruling: the worker failed, or sent anything else.
    """
    if not places:
        return ()
    proxy.ask(requests.Peek(trial.slot, tuple(places)))
    blobs = proxy.answer(REPLY_SLACK_BYTES).blobs
    with proxy.untrusted_answer():
        blobs_in_order = tuple(blobs[str(number)] for number in range(len(places)))
        kinds = (numpy_dtype(problem.buffers[place.name].dtype) for place in places)
        sizes = [place.count * kind.itemsize for place, kind in zip(places, kinds, strict=True)]
        if [blob.size for blob in blobs_in_order] != sizes:
            raise ValueError("a part has the wrong size")
    return blobs_in_order


def first_differing(
    problem: Problem,
    places: Sequence[requests.Place],
    expected: Sequence[Blob],
    got: Sequence[Blob],
    bounds: Mapping[str, Bound],
) -> requests.Place | None:
    """The first sample that differs by more than its output's bound; without a bound, in any bit."""
    for place, expected_bytes, got_bytes in zip(places, expected, got, strict=True):
        if np.array_equal(expected_bytes, got_bytes):
            continue
        if place.name not in bounds:
            return place
        dtype = numpy_dtype(problem.buffers[place.name].dtype)
        expected_values, got_values = (widened(blob.view(dtype)) for blob in (expected_bytes, got_bytes))
        with np.errstate(invalid="ignore"):
            near = np.abs(got_values - expected_values) <= bounds[place.name].of(np.abs(expected_values))
        if not (
            near | (got_values == expected_values) | (np.isnan(got_values) & np.isnan(expected_values))
        ).all():
            return place
    return None


@dataclass
class ReferenceOutputs:
    """What is known of the reference's outputs in the slot of a trial.

    By output: `fingerprints`; `sizes`, the magnitudes of those with hidden copies; `hiding`, the salt and key
    of these copies. `hardly_rounded`: outputs that the reference computes nearly exactly. `peeked`: the
    samples at `places` of each side; `wide_peeked`: those of the wide reference, for outputs that it
    replaced.
    """

    trial: Trial
    fingerprint_salt: int
    fingerprints: Mapping[str, int] = field(default_factory=dict)
    sizes: dict[str, requests.Size] = field(default_factory=dict)
    hiding: dict[str, tuple[int, int]] = field(default_factory=dict)
    hardly_rounded: set[str] = field(default_factory=set)
    places: tuple[requests.Place, ...] = ()
    peeked: dict[SideName, tuple[Blob, ...]] = field(default_factory=dict)
    wide_peeked: dict[requests.Place, Blob] = field(default_factory=dict)

    def bound(self, problem: Problem, name: str, *, strict: bool = True) -> tuple[Bound, float]:
        """The bounds of an output's difference from the reference: per element, and of its norm.

        `strict` False: assume that the reference rounds as much as any correct kernel.
        """
        size = self.sizes[name]
        whole = Magnitudes(size.largest, size.rms)
        exact = strict and name in self.hardly_rounded
        return close_bound(problem, self.trial.sizes, name, whole, size.count, exact=exact)


class BenchRuns:
    """The runs of one case at its bench sizes. `known`: what is on the devices, by slot."""

    def __init__(self, verification: Verification) -> None:
        self.verification = verification
        self._problem = verification.problem
        self._names = output_names(self._problem)
        self._reference, self._other = (verification.sides[side] for side in verification.order)
        self.known: dict[str, ReferenceOutputs] = {}

    def run_structured(self, size: BenchSize | None = None) -> None:
        """Run and compare the trials of a bench size (None: the headline) that are not timed.

        Raises:
            Ruling: a side failed a trial.
        """
        chosen = bench_trials(self._problem, self.verification.seed, size)
        for trial in chosen:
            structured = trial.variation == "structured"
            self.verify(trial, hide_all=structured)
            if not structured:
                self.forget()
        if chosen:
            self.verification.case.passed("bench_structured")

    def forget(self) -> None:
        """Free all slots on the devices."""
        slots = tuple(self.known)
        on_both_sides(lambda side: self.verification.sides[side].call(requests.Forget(slots)))
        self.known.clear()

    def verify(
        self, trial: Trial, *, hide_all: bool = False, bring: Iterable[str] = ()
    ) -> tuple[Mapping[SideName, RunReply], Outputs]:
        """Run a trial on both sides and compare; the replies, and the reference's outputs in `bring`."""
        self.verification.case.seeds.append(trial.seed)
        self.verification.make_inputs(trial)
        known = self.known[trial.slot] = ReferenceOutputs(trial, secrets.randbits(SALT_BITS))
        reference, other = self.verification.order
        with self.verification.lock.shared():
            for side in self.verification.order:
                salts = self.verification.salts(self._run_count(trial, side))
                self.verification.sides[side].ask(requests.Run(trial.slot, salts, known.fingerprint_salt))
            replies = self.verification.answers(trial)
            prints = {
                side: self._checked_fingerprints(trial, side, replies[side])
                for side in self.verification.order
            }
            known.fingerprints = prints[reference]
            known.places = random_places(self._problem, trial)
            known.peeked = {
                side: peek(self.verification.sides[side], self._problem, trial, known.places)
                for side in self.verification.order
            }
            differing = [
                name
                for name in self._names
                if name not in prints[reference] or prints[other].get(name) != prints[reference][name]
            ]
            needed = with_companions(self._problem, [*differing, *bring])
            self._hide(known, list(dict.fromkeys([*(self._names if hide_all else ()), *needed])))
            self._use_wide(known, differing)
            if needed:
                self._reference.call(requests.Bring(trial.slot, tuple(needed)))
        arrays = self._compare_differing(known, differing, needed, set(bring)) if needed else {}
        self._compare_peeked(known, differing)
        for side in self.verification.order:
            self._check_repeats(trial, side, replies[side])
        return replies, arrays

    def _run_count(self, trial: Trial, side: SideName) -> int:
        """How many times a side runs; the reference once: its repeats are compared at the test sizes."""
        return 1 if side == self.verification.reference else trial.runs

    def _compare_peeked(self, known: ReferenceOutputs, differing: Sequence[str]) -> None:
        """Compare the samples that the driver copied, in case a side tampered with the other comparisons.

        The same bounds and expected outputs apply: those of the wide reference where it replaced the plain
        ones.

        Raises:
            Ruling: `mismatch`.
        """
        plain, got = (known.peeked[side] for side in self.verification.order)
        expected = [
            known.wide_peeked.get(place, part) for place, part in zip(known.places, plain, strict=True)
        ]
        compared = (name for name in differing if self._comparable_on_device(name))
        loose = {name: known.bound(self._problem, name)[0] for name in compared}
        other = first_differing(self._problem, known.places, expected, got, loose)
        if other is not None:
            elements = f"{other.name}: elements from {other.start} on"
            text = f"{elements} are not what was compared ({known.trial.text})"
            raise Ruling(Outcome.MISMATCH, text, side=self.verification.order[1])

    def _checked_fingerprints(self, trial: Trial, side: SideName, reply: RunReply) -> dict[str, int]:
        """The first run's fingerprint of each output; raises a ruling if a run wrote out of bounds."""
        self.verification.check_integrity(trial, side, reply)
        with self.verification.sides[side].untrusted_answer():
            if len(reply.body.prints) != self._run_count(trial, side):
                raise ValueError("another number of runs")
            return dict(
                zip(self.verification.checked[side].by_fingerprint, reply.body.prints[0], strict=True)
            )

    def _check_repeats(self, trial: Trial, side: SideName, reply: RunReply) -> None:
        """Raise a ruling unless all runs agree with the first."""
        with self.verification.sides[side].untrusted_answer():
            prints_by_output = list(
                zip(self.verification.checked[side].by_fingerprint, *reply.body.prints, strict=True)
            )
        for name, *prints in prints_by_output:
            if len(set(prints)) != 1:
                raise self.verification.nondeterministic(trial, side, name)
        if reply.body.drifted:
            raise self.verification.nondeterministic(trial, side, reply.body.drifted[0])
        names = with_companions(self._problem, self.verification.checked[side].read_back)
        if names:
            first_outputs, *repeats = (
                self.verification.outputs(trial, side, reply, run, names)
                for run in range(self._run_count(trial, side))
            )
            for again in repeats:
                self.verification.agree_with_itself(
                    trial, side, first_outputs, again, self.verification.checked[side].read_back
                )

    def _compare_differing(
        self, known: ReferenceOutputs, differing: Sequence[str], needed: Sequence[str], bring: set[str]
    ) -> Outputs:
        """Compare outputs with different fingerprints; returns the reference's outputs in `bring`."""
        trial, slot = known.trial, known.trial.slot
        limit = outputs_bytes(self._problem, trial.sizes, needed)
        self._reference.ask(requests.Fetch(slot))
        blobs = self._reference.answer(limit + REPLY_SLACK_BYTES).blobs
        with self._reference.untrusted_answer():
            if any(blobs[n].size != logical_bytes(self._problem.buffers[n], trial.sizes) for n in needed):
                raise ValueError("an output of another size")
        close = [name for name in differing if self._comparable_on_device(name)]
        wrong = [name for name in differing if name not in close]
        if close:
            hiding = {name: known.hiding[name] for name in close}
            self._other.call(requests.Expect(slot, hiding), {name: blobs[name] for name in close})
            with self.verification.lock.shared():
                wrong += self._beyond_bounds(known, self._other, slot, close)
        if wrong or bring:
            arrays = self._decrypted(known, blobs, needed)
            if wrong:
                self._compare_on_host(known, wrong, arrays)
            return {name: arrays[name] for name in with_companions(self._problem, list(bring))}
        return {}

    def _hide(self, known: ReferenceOutputs, names: Sequence[str]) -> None:
        """Have the reference's worker keep encrypted copies of these outputs of its last run."""
        if names:
            hiding = {name: (secrets.randbits(64), secrets.randbits(64)) for name in names}
            answer = self._reference.call(requests.Hide(known.trial.slot, hiding)).body
            known.hiding |= hiding
            with self._reference.untrusted_answer():
                if not all(math.isfinite(size.largest) and math.isfinite(size.rms) for size in answer.sizes):
                    raise ValueError("a size that is no number")
                known.sizes |= dict(zip(names, answer.sizes, strict=True))
        if self.verification.exact(known.trial):
            known.hardly_rounded |= set(names)

    def _use_wide(self, known: ReferenceOutputs, differing: Sequence[str]) -> None:
        """Replace differing outputs by the wide reference's, if the reference rounds much in this trial."""
        wide, trial = self.verification.wide, known.trial
        if wide is None or not wide.wanted(trial.sizes):
            return
        names = [name for name in accumulated(self._problem, trial.sizes) if name in differing]
        if not names:
            return
        with extra_run(WIDE):
            self._reference.call(
                requests.Run(trial.slot, self.verification.salts(1), known.fingerprint_salt, "wide")
            )
            lenient = wide.lenient(trial.sizes)
            bounds = {name: known.bound(lenient, name, strict=False) for name in names}
            differing_from_plain = self._beyond(known, self._reference, trial.slot, bounds)
            if wide.accept(not differing_from_plain):
                self._hide(known, names)
                known.hardly_rounded |= set(names)
                places = [place for place in known.places if place.name in names]
                parts = peek(self._reference, self._problem, trial, places)
                known.wide_peeked = dict(zip(places, parts, strict=True))

    def _beyond_bounds(
        self, known: ReferenceOutputs, proxy: SideProxy, slot: str, names: Sequence[str]
    ) -> list[str]:
        """The outputs in `names` whose last run in `slot` is too far from the hidden copies of `known`."""
        bounds = {name: known.bound(self._problem, name) for name in names}
        return self._beyond(known, proxy, slot, bounds)

    def _beyond(
        self, known: ReferenceOutputs, proxy: SideProxy, slot: str, bounds: Mapping[str, tuple[Bound, float]]
    ) -> list[str]:
        """The outputs whose last run in `slot` exceeds these bounds (per element, norm)."""
        close = tuple(requests.Close(name, bound) for name, (bound, _) in bounds.items())
        answer = proxy.call(requests.Compare(slot, known.trial.slot, close)).body
        with proxy.untrusted_answer():
            pairs = list(zip(bounds.items(), answer.close, strict=True))
        return [name for (name, (_, norm)), error in pairs if not error.within(norm)]

    def _comparable_on_device(self, name: str) -> bool:
        """Whether an output can be compared element by element: floating, and in a fixed order."""
        buffer = self._problem.buffers[name]
        return is_float(buffer.dtype) and not unordered(buffer)

    def _decrypted(
        self, known: ReferenceOutputs, blobs: Mapping[str, Blob], names: Sequence[str]
    ) -> dict[str, Any]:
        """The reference's outputs, decrypted from its hidden copies."""
        with self._reference.untrusted_answer():
            plain = {
                name: blobs[name] ^ noise_bytes(0, blobs[name].size, *known.hiding[name]) for name in names
            }
            return arrays_of(self._problem, plain, known.trial.sizes, None, names)

    def _compare_on_host(self, known: ReferenceOutputs, names: Sequence[str], expected: Outputs) -> None:
        """Compare outputs of the other side's last run on the host.

        Raises:
            Ruling: `mismatch`.
        """
        trial = known.trial
        members = with_companions(self._problem, names)
        limit = outputs_bytes(self._problem, trial.sizes, members)
        with self.verification.lock.shared():
            self._other.ask(requests.ReadOutputs(trial.slot, tuple(members)))
            blobs = self._other.answer(limit + REPLY_SLACK_BYTES).blobs
        with self._other.untrusted_answer():
            got = arrays_of(self._problem, blobs, trial.sizes, None, members)
        for name in names:
            difference = differs(
                self._problem, trial.sizes, name, expected, got, exact=name in known.hardly_rounded
            )
            if difference is not None:
                raise Ruling(
                    Outcome.MISMATCH, f"{name}: {difference} ({trial.text})", side=self.verification.order[1]
                )

    def spoiled(self, trial: Trial, change: str) -> Spoiling | None:
        """Whether the reference's outputs on spoiled inputs would be accepted as those of the trial."""
        with extra_run(CHANGED_INPUTS):
            known = self.known.get(trial.slot) or self._run_reference_alone(trial)
            slot = f"{trial.slot}-{change}"
            spoiled = replace(trial, slot=slot, variation=f"{trial.variation}/{change}")
            prints = self._reference_fingerprints(spoiled, known.fingerprint_salt)
            changed = [n for n in self._names if n not in prints or prints[n] != known.fingerprints.get(n)]
            close = [name for name in changed if self._comparable_on_device(name)]
            accepted = len(close) == len(changed)
            if accepted and close:
                with self.verification.lock.shared():
                    accepted = not self._beyond_bounds(known, self._reference, slot, close)
            self._reference.call(requests.Forget((slot,)))
        return Spoiling(accepted, any(is_float(self._problem.buffers[name].dtype) for name in changed))

    def _run_reference_alone(self, trial: Trial) -> ReferenceOutputs:
        """Run the reference alone on a trial and keep hidden copies of its outputs."""
        known = self.known[trial.slot] = ReferenceOutputs(trial, secrets.randbits(SALT_BITS))
        known.fingerprints = self._reference_fingerprints(trial, known.fingerprint_salt)
        with self.verification.lock.shared():
            self._hide(known, self._names)
        return known

    def _reference_fingerprints(self, trial: Trial, salt: int) -> dict[str, int]:
        """Run the reference once on a trial; the fingerprints of its outputs."""
        if trial.seed not in self.verification.case.seeds:
            self.verification.case.seeds.append(trial.seed)
        self._reference.ask(trial.request)
        self._reference.wait_for_inputs()
        with self.verification.lock.shared():
            reply = self._reference.call(requests.Run(trial.slot, self.verification.salts(1), salt))
        names = self.verification.checked[self.verification.reference].by_fingerprint
        with self._reference.untrusted_answer():
            return dict(zip(names, reply.body.prints[0], strict=True))
