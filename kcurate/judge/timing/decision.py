"""The timing stage of a case: two loaded sides in, a speedup and a ruling out.

It holds the GPU exclusively while it times, checks the outputs of every timed run by checksum, and refuses
sides below the bandwidth floor. Not covered: the protocol (`timing.blocks`), the statistics
(`timing.statistics`), overheads and margins (`timing.calibration`).
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
from kcurate.judge.workers.side_proxy import SideProxy, on_both_sides
from kcurate.records import SIDES, Outcome
from kcurate.records.pair import SideName

OUTCOMES = {
    "confirmed": Outcome.CONFIRMED,
    "not_faster": Outcome.NOT_FASTER,
    "ambiguous_timing": Outcome.AMBIGUOUS_TIMING,
}
# Larger ratios are confirmed but marked for audit; training judges them twice before the speed counts. Most
# published speedups beyond it were broken kernels (82 of 250 of CUDA-L1).
AUDIT_RATIO = 10.0


@dataclass(frozen=True)
class TimingJob:
    """What is timed: the input sets prepared under `slots` in both workers, and what they must write.

    `summed`: the outputs of each side that a checksum covers. `sums`: their checksums in the verified runs,
    one per slot.
    """

    slots: Sequence[str]
    seed: int
    poison: int
    written_bytes: int
    all_bytes: int
    summed: Mapping[SideName, tuple[str, ...]]
    sums: Mapping[SideName, tuple[int, ...]]


class SideSampler:
    """Takes one side's samples and compares each timed run's checksum with the verified one."""

    def __init__(self, proxy: SideProxy, job: TimingJob) -> None:
        self._proxy = proxy
        answer = proxy.call(Time(tuple(job.slots), job.summed[proxy.side], job.poison)).body
        self.chain_runs = answer.chain_runs
        self.l2_bytes = answer.l2_bytes
        self._sums = job.sums[proxy.side]
        self._witness = self._own_memory_sum()
        self._compare(enumerate(answer.sums))
        self.runs = 0

    def _own_memory_sum(self) -> int:
        return self._proxy.call(Witness()).body.sum

    def _compare(self, found: Iterable[tuple[int, int]]) -> None:
        with self._proxy.untrusted_answer():
            same = all(word == self._sums[index] for index, word in found)
        if not same:
            text = "a timed run's outputs differ from the verified ones"
            raise Ruling(Outcome.MISMATCH, text, side=self._proxy.side)

    def finish(self) -> None:
        """Check our own device memory after the last block.

        Raises:
            Ruling: the side wrote to it.
        """
        if self._own_memory_sum() != self._witness:
            raise Ruling(Outcome.MISMATCH, "wrote outside its buffers during timing", side=self._proxy.side)

    def ready(self, method: timing.Method, count: int) -> None:
        """See `timing.Sampler`.

        Raises:
            Ruling: the side failed.
        """
        if method == "chain":
            self._proxy.call(Chain(count))

    def block(self, method: timing.Method, samples: int, first: int, count: int) -> list[float]:
        """See `timing.Sampler`.

        Raises:
            Ruling: a timed run's outputs differ from the verified ones, or the side failed.
        """
        answer = self._proxy.call(Block(method, samples, first, count)).body
        self.runs += samples * max(1, count)
        self._compare(answer.sums)
        return list(answer.times)


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
            chain_overhead_us=self._calibration.chain_overhead_us,
            chain_step_us=self._calibration.chain_step_us,
            chain_runs=min(sampler.chain_runs for sampler in self.samplers.values()),
        )
        with self._lock.exclusive():
            samples = timing.measure(self.samplers, config, self._calibration.margin)
        with self._lock.shared():
            for sampler in self.samplers.values():
                sampler.finish()
        return samples


def time_case(
    case: Case, sides: Mapping[SideName, SideProxy], job: TimingJob, calibration: Calibration, lock: GpuLock
) -> Ruling:
    """Time both sides, record the measurements in the case, and rule.

    Raises:
        Ruling: a side failed during timing.
    """
    timer = PairTimer(sides, job, calibration, lock)
    samples = timer.measure(job.seed)
    case.timing_method = samples.method
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
    return _rule(case, samples, job, calibration, timer.samplers["fast"].l2_bytes)


def rounded(blocks: Sequence[Sequence[float]]) -> tuple[tuple[float, ...], ...]:
    """Samples rounded to a nanosecond for the record (an event's tick is 32 ns)."""
    return tuple(tuple(round(sample, 3) for sample in block) for block in blocks)


def _rule(
    case: Case, samples: timing.Samples, job: TimingJob, calibration: Calibration, l2_bytes: int
) -> Ruling:
    medians = {side: samples.median_us(side) for side in SIDES}
    least = bandwidth_floor.floor_us(job.written_bytes, l2_bytes, calibration.copy_bytes_per_s)
    fraction = bandwidth_floor.copy_fraction(job.all_bytes, medians["fast"], calibration.copy_bytes_per_s)
    case.add_details(floor_us=round(least, 3), fast_copy_fraction=round(fraction, 4) if fraction else None)
    beaten = bandwidth_floor.describe(medians, least)
    if beaten is not None:
        return Ruling(Outcome.MISMATCH, f"faster than memory bandwidth allows: {beaten}")
    case.passed("physics_floor")
    estimate = samples.estimate
    if estimate is None:
        return Ruling(Outcome.AMBIGUOUS_TIMING, f"a side under {timing.SHORTEST_US} us is too short to time")
    if estimate.blocks < statistics.MIN_BLOCKS:
        return Ruling(Outcome.AMBIGUOUS_TIMING, f"only {estimate.blocks} blocks fit in the time limit")
    case.add_details(audit=estimate.ratio > AUDIT_RATIO)
    text = f"{estimate.ratio:.3f}x ({estimate.low:.3f} to {estimate.high:.3f})"
    return Ruling(OUTCOMES[statistics.decide(estimate)], text)
