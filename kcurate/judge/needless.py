"""Which part of a slow side is needless: without it the outputs stay right, and the side takes much less time.

On the emulator the side runs without each of its parts (`kcurate.mutate.ablations`), on every trial of the test sizes
and with a few blocks at the bench size. What stays right is a suspect, those first whose counts explain the most time;
those whose cost no count shows (barriers, attributes, shared memory) come last. A suspect is only proved by
times, or, where none are taken, by counts. Not covered: timing suspects (`kcurate.judge.judging`), the model of time
(`kcurate.judge.explained`).
"""

from __future__ import annotations

import time
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace

from kcurate.backends.base import Compiled, Counts
from kcurate.errors import BackendError
from kcurate.judge.agreement import Outputs, arrays_of, differs
from kcurate.judge.case import Ruling
from kcurate.judge.counted_runs import SAMPLED_BLOCKS, CountedRuns
from kcurate.judge.explained import explained_us
from kcurate.judge.trials import Trial, timed_trials, trials
from kcurate.judge.workers.requests import Count
from kcurate.judge.workers.side_proxy import SideProxy
from kcurate.mutate.ablations import Ablation, ablations, guarded
from kcurate.problem.outputs import logical_bytes
from kcurate.records import Candidate

# A part is needless if the time falls by more than a fifth without it.
LEAST_GAIN = 1.25
# The most suspects that are timed, parts that are tried, and seconds that this takes.
TIMED, TRIED, TRYING_S = 4, 150, 30.0
# A run may take this many times as long as that of the whole side, and at least so many seconds.
RUN_RATIO, LEAST_RUN_S = 4.0, 1.0
# Outputs of more bytes are not hashed at the bench size.
MOST_HASHED_BYTES = 1 << 28


@dataclass(frozen=True)
class Suspect:
    """A part without which the side stays right, and how many times longer its counts take with it (None: no
    count shows it)."""

    ablation: Ablation
    gain: float | None

    @property
    def text(self) -> str:
        """The part and its line."""
        line = self.ablation.line
        return f"{self.ablation.what} (line {line})" if line else self.ablation.what


@dataclass(frozen=True)
class _Whole:
    """What the whole side does in each trial: its outputs or their digest, its counts, and how long that takes."""

    trial: Trial
    outputs: Outputs
    digest: str
    counts: Counts
    wall_s: float


def suspects(runs: CountedRuns, candidate: Candidate, *, counted_only: bool = False) -> tuple[Suspect, ...]:
    """At most `TIMED` parts of the slow side that may be needless, the most costly first.

    `counted_only`: those alone that the counts show to be so. Empty where the emulator cannot run the side.
    """
    started = time.perf_counter()
    parts = ablations(candidate.slow)[:TRIED]
    if counted_only:
        parts = tuple(part for part in parts if part.counted)
    made = _compiled(runs, candidate, [part.number for part in parts if part.number])
    if made is None:
        return ()
    compiled, numbers = made
    stages = _Runner(runs, candidate, compiled)
    found = []
    try:
        if not stages.run_whole():
            return ()
        for part in parts:
            if time.perf_counter() - started > TRYING_S:
                break
            if (not part.number or part.number in numbers) and stages.stays_right(part):
                found.append(Suspect(part, stages.gain() if part.counted else None))
    finally:
        stages.close()
    costly = [one for one in found if one.gain is not None and one.gain > LEAST_GAIN]
    costly.sort(key=lambda one: one.gain or 0.0, reverse=True)
    unseen = [] if counted_only else [one for one in found if one.gain is None]
    return tuple((costly + unseen)[:TIMED])


def _compiled(
    runs: CountedRuns, candidate: Candidate, numbers: Sequence[int]
) -> tuple[Compiled, frozenset[int]] | None:
    """The slow side with a guard around each part where that compiles, and the numbers of these parts."""

    def compile_with(chosen: Collection[int]) -> Compiled | None:
        return runs.compiled_slow(replace(candidate.slow, code=guarded(candidate.slow.code, chosen)), candidate)

    def fitting(chosen: Sequence[int]) -> Iterator[int]:
        if compile_with(chosen) is not None:
            yield from chosen
        elif len(chosen) > 1:
            yield from fitting(chosen[: len(chosen) // 2])
            yield from fitting(chosen[len(chosen) // 2 :])

    if compile_with(()) is None:
        return None
    usable = frozenset(fitting(numbers))
    compiled = compile_with(usable)
    return (compiled, usable) if compiled is not None else None


class _Runner:
    """Runs the slow side, whole and without parts, in a worker that is replaced after a failure."""

    def __init__(self, runs: CountedRuns, candidate: Candidate, compiled: Compiled) -> None:
        assert candidate.problem is not None, "plans are admitted first"
        self._runs, self._candidate, self._compiled = runs, candidate, compiled
        self._problem = candidate.problem
        self._chosen = [*trials(self._problem, runs.seed), timed_trials(self._problem, runs.seed)[0]]
        self._whole: list[_Whole] = []
        self._counts: list[Counts] = []
        self._proxy: SideProxy | None = None
        self._plan = candidate.slow.plan
        self._ready: set[str] = set()
        buffers = self._problem.buffers.values()
        sizes = self._problem.sizes.headline
        written = sum(logical_bytes(one, sizes) for one in buffers if one.role in ("out", "inout"))
        self._hashed = written <= MOST_HASHED_BYTES

    def close(self) -> None:
        """End the worker."""
        if self._proxy is not None:
            self._proxy.worker.kill()
        self._proxy = None

    def run_whole(self) -> bool:
        """Run the whole side; whether it runs at each test size (it need not at the bench size)."""
        for trial in self._chosen:
            started = time.perf_counter()
            try:
                answer = self._count(trial, self._candidate.slow.plan, 0, None)
            except (Ruling, BackendError):
                self.close()
                return bool(self._whole) and trial.at_bench
            self._whole.append(_Whole(trial, *answer, time.perf_counter() - started))
        return True

    def stays_right(self, part: Ablation) -> bool:
        """Whether the side without this part gives the whole side's outputs in each trial."""
        self._counts = []
        for whole in self._whole:
            limit_s = max(LEAST_RUN_S, RUN_RATIO * whole.wall_s)
            try:
                outputs, digest, counts = self._count(whole.trial, part.side.plan, part.number, limit_s)
            except (Ruling, BackendError):
                self.close()
                return False
            sizes = whole.trial.sizes
            if whole.trial.at_bench:
                if digest != whole.digest and not part.regridded:
                    return False
            elif any(differs(self._problem, sizes, name, whole.outputs, outputs) for name in outputs):
                return False
            self._counts.append(counts)
        return True

    def gain(self) -> float:
        """How many times longer the counts of the whole side take than those of the part that was left out last, at
        the largest size."""
        return explained_us(self._whole[-1].counts) / max(1e-3, explained_us(self._counts[-1]))

    def _count(
        self, trial: Trial, plan: object, number: int, limit_s: float | None
    ) -> tuple[Outputs, str, Counts]:
        if self._proxy is None or plan != self._plan:
            self.close()
            side = replace(self._candidate.slow, plan=plan)  # type: ignore[arg-type]
            self._proxy = self._runs.loaded_slow(replace(self._candidate, slow=side), self._compiled)
            self._plan, self._ready = side.plan, set()
        proxy = self._proxy
        usual_s = proxy.timeout_s
        if trial.slot not in self._ready:
            proxy.ask(replace(trial.request, on_device=False))
            proxy.wait_for_inputs()
            self._ready.add(trial.slot)
        sample = SAMPLED_BLOCKS if trial.at_bench else 0
        wanted = self._hashed or not trial.at_bench
        try:
            proxy.timeout_s = limit_s or usual_s
            reply = proxy.call(Count(trial.slot, sample, trial.seed & 0xFFFFFFFF, False, number, wanted))
        finally:
            proxy.timeout_s = usual_s
        names = sorted(reply.blobs)
        outputs = arrays_of(self._problem, reply.blobs, trial.sizes, None, names)
        return outputs, reply.body.digest, reply.body.counts
