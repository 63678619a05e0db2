"""The timing stage of a case: two running sides in, a speedup or a ruling out.

Holds the GPU alone while times are taken; checks that every timed run gave the outputs that were verified,
and that no side beats physics. Not covered: the protocol of blocks (`timing.blocks`), the statistics
(`timing.statistics`), what this machine's clock costs (`timing.calibration`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from kcurate.judge.case import Case, Ruling
from kcurate.judge.gpu_lock import GpuLock
from kcurate.judge.timing import bandwidth_floor, statistics
from kcurate.judge.timing import blocks as timing
from kcurate.judge.timing.calibration import Calibration
from kcurate.judge.workers.messages import Block, Chain, Time, Witness
from kcurate.judge.workers.side_proxy import RunningSide, both_sides
from kcurate.records import SIDES, Outcome
from kcurate.records.pair import SideName

OUTCOMES = {
    "confirmed": Outcome.CONFIRMED,
    "not_faster": Outcome.NOT_FASTER,
    "ambiguous_timing": Outcome.AMBIGUOUS_TIMING,
}
# A ratio above this in training goes to audit (the physics of one kernel seldom allow more).
AUDIT_RATIO = 10.0


@dataclass(frozen=True)
class TimingJob:
    """What is timed: input sets prepared under `slots` in both workers, and what they must write.

    `summed` names a side's outputs that a sum on the device vouches for, `sums` the verified runs' sums, one
    a slot.
    """

    slots: Sequence[str]
    seed: int
    poison: int
    written_bytes: int
    all_bytes: int
    summed: Mapping[SideName, tuple[str, ...]]
    sums: Mapping[SideName, tuple[int, ...]]


class SideSampler:
    """A running side as `timing.blocks` sees it; compares each timed run's checksum with the verified one."""

    def __init__(self, running: RunningSide, job: TimingJob) -> None:
        self._running = running
        answer = running.call(Time(tuple(job.slots), job.summed[running.side], job.poison)).body
        self.chain_runs = answer.chain_runs
        self.l2_bytes = answer.l2_bytes
        self._sums = job.sums[running.side]
        self._witness = self._sum_of_ours()
        self._compare(enumerate(answer.sums))
        self.runs = 0

    def _sum_of_ours(self) -> int:
        return self._running.call(Witness()).body.sum

    def _compare(self, found: Iterable[tuple[int, int]]) -> None:
        with self._running.sense():
            same = all(word == self._sums[index] for index, word in found)
        if not same:
            text = "a timed run gave other outputs than the verified one"
            raise Ruling(Outcome.MISMATCH, text, side=self._running.side)

    def finish(self) -> None:
        """After the last block.

        Raises:
            Ruling: memory that is none of the side's was written.
        """
        if self._sum_of_ours() != self._witness:
            raise Ruling(Outcome.MISMATCH, "wrote outside its buffers while timed", side=self._running.side)

    def ready(self, method: timing.Method, count: int) -> None:
        """Have the chain made, if one will be asked for.

        Raises:
            Ruling: the side failed.
        """
        if method == "chain":
            self._running.call(Chain(count))

    def block(self, method: timing.Method, samples: int, first: int, count: int) -> list[float]:
        """Take samples; see `timing.Sampler`.

        Raises:
            Ruling: a timed run gave other outputs, or the side failed.
        """
        answer = self._running.call(Block(method, samples, first, count)).body
        self.runs += samples * max(1, count)
        self._compare(answer.sums)
        return list(answer.times)


class Stopwatch:
    """Both sides ready to be timed any number of times.

    Raises:
        Ruling: a side failed, or gave other outputs than before.
    """

    def __init__(
        self, sides: Mapping[SideName, RunningSide], job: TimingJob, known: Calibration, lock: GpuLock
    ) -> None:
        self._lock = lock
        self._known = known
        with lock.shared():
            self.samplers = both_sides(lambda side: SideSampler(sides[side], job))

    @property
    def runs(self) -> int:
        """Timed runs so far, both sides."""
        return sum(sampler.runs for sampler in self.samplers.values())

    def measure(self, seed: int) -> timing.Samples:
        """Take times once, the GPU held alone.

        Raises:
            Ruling: a side failed, or a timed run gave other outputs than the verified one.
        """
        config = timing.TimingConfig(
            seed=seed,
            event_overhead_us=self._known.event_overhead_us,
            chain_overhead_us=self._known.chain_overhead_us,
            chain_step_us=self._known.chain_step_us,
            chain_runs=min(sampler.chain_runs for sampler in self.samplers.values()),
        )
        with self._lock.exclusive():
            samples = timing.measure(self.samplers, config, self._known.margin)
        with self._lock.shared():
            for sampler in self.samplers.values():
                sampler.finish()
        return samples


def time_case(
    case: Case, sides: Mapping[SideName, RunningSide], job: TimingJob, known: Calibration, lock: GpuLock
) -> Ruling:
    """Time both sides and rule; what was measured is noted in the case.

    Raises:
        Ruling: a side failed while it was timed.
    """
    watch = Stopwatch(sides, job, known, lock)
    samples = watch.measure(job.seed)
    case.timing_method = samples.method
    case.speedup = samples.estimate
    for side in SIDES:
        case.report(side, median_us=samples.median_us(side), samples_us=rounded(samples.blocks[side]))
    case.note(
        timing_settled=samples.settled,
        timing_wall_s=round(samples.wall_s, 6),
        timed_runs=watch.runs,
        copy_bytes_per_s=known.copy_bytes_per_s,
        event_overhead_us=round(known.event_overhead_us, 4),
    )
    case.passed("timed_outputs")
    return _rule(case, samples, job, known, watch.samplers["fast"].l2_bytes)


def rounded(blocks: Sequence[Sequence[float]]) -> tuple[tuple[float, ...], ...]:
    """Samples for the record, to a nanosecond (an event's tick is 32)."""
    return tuple(tuple(round(sample, 3) for sample in block) for block in blocks)


def _rule(
    case: Case, samples: timing.Samples, job: TimingJob, calibration: Calibration, l2_bytes: int
) -> Ruling:
    medians = {side: samples.median_us(side) for side in SIDES}
    least = bandwidth_floor.floor_us(job.written_bytes, l2_bytes, calibration.copy_bytes_per_s)
    fraction = bandwidth_floor.copy_fraction(job.all_bytes, medians["fast"], calibration.copy_bytes_per_s)
    case.note(floor_us=round(least, 3), fast_copy_fraction=round(fraction, 4) if fraction else None)
    beaten = bandwidth_floor.describe(medians, least)
    if beaten is not None:
        return Ruling(Outcome.MISMATCH, f"faster than physics allows: {beaten}")
    case.passed("physics_floor")
    estimate = samples.estimate
    if estimate is None:
        return Ruling(
            Outcome.AMBIGUOUS_TIMING, f"under {timing.SHORTEST_US} us, nothing can be claimed of a time"
        )
    if estimate.blocks < statistics.MIN_BLOCKS:
        return Ruling(Outcome.AMBIGUOUS_TIMING, f"only {estimate.blocks} blocks within the time limit")
    case.note(audit=estimate.ratio > AUDIT_RATIO)
    text = f"{estimate.ratio:.3f}x ({estimate.low:.3f} to {estimate.high:.3f})"
    return Ruling(OUTCOMES[statistics.decide(estimate)], text)
