"""The timing stage of a case: two loaded sides in, a speedup and a ruling out.

It holds the GPU exclusively while it times, checks the outputs of every timed run by checksum, and refuses
sides below the bandwidth floor: the least time that writing the outputs takes at the measured copy bandwidth.
Every `out` buffer is poisoned before each run and compared after it, so all of it must be written, except
that what fits in L2 need not reach DRAM before the kernel ends. Inputs are not counted, since a correct side
may not need all of them. Not covered: the protocol (`timing.blocks`), the statistics (`timing.statistics`),
overheads and margins (`timing.calibration`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from kcurate.judge.case import Case, Ruling
from kcurate.judge.gpu_lock import GpuLock
from kcurate.judge.timing import blocks as timing
from kcurate.judge.timing import statistics
from kcurate.judge.timing.calibration import Calibration
from kcurate.judge.workers.protocol import Blob
from kcurate.judge.workers.requests import Close, Place
from kcurate.judge.workers.side_proxy import SideProxy, on_both_sides
from kcurate.judge.workers.timing_requests import Block, SampleAnswer, Time
from kcurate.records import SIDES, Outcome, SizeTiming
from kcurate.records.pair import SideName

# Writes alone are a little faster than the copy that the bandwidth is measured with.
ALLOWANCE = 0.7


def floor_us(written_bytes: int, l2_bytes: int, copy_bytes_per_s: float) -> float:
    """The floor in microseconds for `written_bytes` of outputs; 0 if the bandwidth is unknown.

    `copy_bytes_per_s` counts bytes read plus bytes written.
    """
    if copy_bytes_per_s <= 0:
        return 0.0
    return ALLOWANCE * max(0, written_bytes - l2_bytes) / copy_bytes_per_s * 1e6


def copy_fraction(all_bytes: int, median_us: float, copy_bytes_per_s: float) -> float | None:
    """The fraction of the copy bandwidth that a side reaches if it moves every buffer once."""
    if median_us <= 0 or copy_bytes_per_s <= 0:
        return None
    return all_bytes / (median_us * 1e-6) / copy_bytes_per_s


def describe(sides: Mapping[SideName, float], floor: float) -> str | None:
    """The first side below the floor, in words; None if there is none."""
    for side, median_us in sides.items():
        if median_us < floor:
            return f"{side} takes {median_us:.2f} us, but writing its outputs takes at least {floor:.2f} us"
    return None


OUTCOMES = {
    "confirmed": Outcome.CONFIRMED,
    "not_faster": Outcome.NOT_FASTER,
    "ambiguous_timing": Outcome.AMBIGUOUS_TIMING,
}
# Larger ratios are confirmed but marked for audit; training judges them twice before the speed counts. Most
# published speedups beyond it were broken kernels (82 of 250 of CUDA-L1).
AUDIT_RATIO = 10.0


@dataclass(frozen=True)
class Expected:
    """An output that may differ from run to run: how close to its hidden copy it must be.

    `norm`: the largest allowed norm of the difference.
    """

    close: Close
    norm: float


@dataclass(frozen=True)
class Peeked:
    """Part of an output of a verified run, as the driver copied it to the host."""

    place: Place
    data: Blob


@dataclass(frozen=True)
class TimingJob:
    """What is timed: the input sets kept under `slots` in both workers, and what they must write.

    `fingerprints`: the salt of each slot's. `by_fingerprint`: the outputs of each side that a fingerprint
    covers; `sums`: the sums of these in the verified runs, one per slot. `expected`: for each slot, the other
    outputs that a device can compare. `read_back`: those that it cannot; `agree` compares them, from the
    slot's index, with the reference's. `peeked`: for each slot, parts of the `by_fingerprint` outputs, of
    which each timed run returns one.
    """

    slots: Sequence[str]
    seed: int
    fingerprints: tuple[int, ...]
    written_bytes: int
    all_bytes: int
    by_fingerprint: Mapping[SideName, tuple[str, ...]]
    sums: Mapping[SideName, tuple[int, ...]]
    expected: Mapping[SideName, Sequence[tuple[Expected, ...]]]
    read_back: Mapping[SideName, tuple[str, ...]]
    peeked: Mapping[SideName, Sequence[tuple[Peeked, ...]]]
    agree: Callable[[int, SideName, Mapping[str, Blob]], str | None]


class SideSampler:
    """Takes one side's samples and checks the outputs of every run."""

    def __init__(self, proxy: SideProxy, job: TimingJob) -> None:
        self._proxy, self._job, self._side = proxy, job, proxy.side
        self._expected = job.expected[proxy.side]
        expected = dict(zip(job.slots, self._expected, strict=True))
        close = {slot: tuple(entry.close for entry in entries) for slot, entries in expected.items()}
        self._peeked = job.peeked[proxy.side]
        parts = zip(job.slots, self._peeked, strict=True)
        request = Time(
            slots=tuple(job.slots),
            fingerprints=job.fingerprints,
            by_fingerprint=job.by_fingerprint[proxy.side],
            close=close,
            read_back=job.read_back[proxy.side],
            places={slot: tuple(entry.place for entry in entries) for slot, entries in parts},
        )
        answer = proxy.call(request).body
        self.graph = answer.graph
        self.l2_bytes = answer.l2_bytes
        self.runs = 0

    def _mismatch(self, text: str) -> Ruling:
        return Ruling(Outcome.MISMATCH, text, side=self._side)

    def block(self, samples: int, first: int) -> list[float]:
        """See `timing.Sampler`.

        Raises:
            Ruling: a timed run's outputs differ from the verified ones, or the side failed.
        """
        reply = self._proxy.call(Block(samples, first))
        self.runs += samples
        with self._proxy.untrusted_answer():
            for index, sample in enumerate(reply.body.samples):
                self._check(index, sample, reply.blobs)
            if len(reply.body.samples) != samples:
                raise ValueError("another number of samples")
        return [sample.us for sample in reply.body.samples]

    def _check(self, index: int, sample: SampleAnswer, blobs: Mapping[str, Blob]) -> None:
        if sample.integrity:
            raise self._mismatch(f"{sample.integrity[0]} during timing")
        same = sample.sum == self._job.sums[self._side][sample.slot]
        for known, answer in zip(self._expected[sample.slot], sample.close, strict=True):
            same = same and answer.within(known.norm)
        peeked = self._peeked[sample.slot]
        if peeked:
            same = same and np.array_equal(blobs[str(index)], peeked[sample.place].data)
        if not same:
            raise self._mismatch("a timed run's outputs differ from the verified ones")
        whole = {name: blobs[f"{index}/{name}"] for name in self._job.read_back[self._side]}
        wrong = self._job.agree(sample.slot, self._side, whole) if whole else None
        if wrong is not None:
            raise self._mismatch(f"a timed run's outputs differ from the verified ones: {wrong}")


class PairTimer:
    """Times both sides against each other, any number of times.

    Raises:
        Ruling: a side failed, or its outputs differ from the verified ones.
    """

    def __init__(
        self, sides: Mapping[SideName, SideProxy], job: TimingJob, calibration: Calibration, lock: GpuLock
    ) -> None:
        self._lock = lock
        self._calibration = calibration
        self.job = job
        with lock.shared():
            self.samplers = on_both_sides(lambda side: SideSampler(sides[side], job))

    @property
    def runs(self) -> int:
        """Timed runs of both sides so far."""
        return sum(sampler.runs for sampler in self.samplers.values())

    def measure(self, seed: int) -> timing.Samples:
        """Time both sides once, holding the GPU exclusively.

        Raises:
            Ruling: a side failed, or a timed run's outputs differ from the verified ones.
        """
        config = timing.TimingConfig(
            seed=seed,
            event_overhead_us=self._calibration.event_overhead_us,
            graph_overhead_us=self._calibration.graph_overhead_us,
        )
        with self._lock.exclusive():
            return timing.measure(self.samplers, config, self._calibration.margin)


def time_other_size(
    name: str, sides: Mapping[SideName, SideProxy], job: TimingJob, calibration: Calibration, lock: GpuLock
) -> SizeTiming:
    """Time both sides at a bench size other than the headline.

    Raises:
        Ruling: a side failed, or is faster than memory bandwidth allows.
    """
    timer = PairTimer(sides, job, calibration, lock)
    samples = timer.measure(job.seed)
    ruling = _rule(samples, job, calibration, timer.samplers["fast"].l2_bytes)
    if ruling.outcome is Outcome.MISMATCH:
        raise ruling
    slow_us, fast_us = (samples.median_us(side) for side in SIDES)
    return SizeTiming(name, ruling.outcome, round(slow_us, 3), round(fast_us, 3), samples.estimate)


def time_case(
    case: Case, sides: Mapping[SideName, SideProxy], job: TimingJob, calibration: Calibration, lock: GpuLock
) -> Ruling:
    """Time both sides, record the measurements in the case, and rule.

    Raises:
        Ruling: a side failed during timing.
    """
    timer = PairTimer(sides, job, calibration, lock)
    samples = timer.measure(job.seed)
    case.timing_method = "events"
    case.speedup = samples.estimate
    for side in SIDES:
        case.update_report(side, median_us=samples.median_us(side), samples_us=rounded(samples.blocks[side]))
    case.add_details(
        timing_settled=samples.settled,
        timing_wall_s=round(samples.wall_s, 6),
        timed_runs=timer.runs,
        copy_bytes_per_s=calibration.copy_bytes_per_s,
        event_overhead_us=round(calibration.event_overhead_us, 4),
    )
    case.passed("timed_outputs")
    l2_bytes = timer.samplers["fast"].l2_bytes
    fraction = copy_fraction(job.all_bytes, samples.median_us("fast"), calibration.copy_bytes_per_s)
    least = floor_us(job.written_bytes, l2_bytes, calibration.copy_bytes_per_s)
    case.add_details(floor_us=round(least, 3), fast_copy_fraction=round(fraction, 4) if fraction else None)
    ruling = _rule(samples, job, calibration, l2_bytes)
    if ruling.outcome is not Outcome.MISMATCH:
        case.passed("physics_floor")
    if samples.estimate is not None:
        case.add_details(audit=samples.estimate.ratio > AUDIT_RATIO)
    return ruling


def rounded(blocks: Sequence[Sequence[float]]) -> tuple[tuple[float, ...], ...]:
    """Samples rounded to a nanosecond for the record (an event's tick is 32 ns)."""
    return tuple(tuple(round(sample, 3) for sample in block) for block in blocks)


def _rule(samples: timing.Samples, job: TimingJob, calibration: Calibration, l2_bytes: int) -> Ruling:
    medians = {side: samples.median_us(side) for side in SIDES}
    least = floor_us(job.written_bytes, l2_bytes, calibration.copy_bytes_per_s)
    beaten = describe(medians, least)
    if beaten is not None:
        return Ruling(Outcome.MISMATCH, f"faster than memory bandwidth allows: {beaten}")
    estimate = samples.estimate
    if estimate is None:
        return Ruling(Outcome.AMBIGUOUS_TIMING, f"a side under {timing.SHORTEST_US} us is too short to time")
    if estimate.blocks < statistics.MIN_BLOCKS:
        return Ruling(Outcome.AMBIGUOUS_TIMING, f"only {estimate.blocks} blocks fit in the time limit")
    text = f"{estimate.ratio:.3f}x ({estimate.low:.3f} to {estimate.high:.3f})"
    return Ruling(OUTCOMES[statistics.decide(estimate)], text)
