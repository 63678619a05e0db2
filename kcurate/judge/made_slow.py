"""Whether a slow side that a rule or a model made is slow on purpose, from evidence of running it.

`MadeSlow` gets the evidence. The decisions are pure functions that answer None or the evidence in one line:
`wasted` reads counts of code, threads and shared memory (at the bench size, if it could be run there), `grew`
and `above_cap` read times, `unexplained` both. Where the limits come from: docs/judge.md. Not covered:
counting (`kcurate.judge.counted_runs`), parts that could be left out (`kcurate.judge.needless`), patterns in
the text (`checks.sham_work`), what kernels never read (`checks.unread`). Sides that nobody made are never
asked.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from kcurate.backends.base import Counts
from kcurate.core.workspace import Workspace
from kcurate.judge.admission import made_slow
from kcurate.judge.case import Case, Ruling
from kcurate.judge.counted_runs import Counted, CountedRuns
from kcurate.judge.explained import EXPLAINED, FREE_REGISTERS, beside_fast_us, explained_us
from kcurate.judge.needless import LEAST_GAIN, Suspect, suspects
from kcurate.judge.timing.blocks import SHORTEST_US
from kcurate.judge.trials import largest_test
from kcurate.records import (
    SIDES,
    BenchSize,
    Candidate,
    Origin,
    Outcome,
    SideReport,
    SizeTiming,
    Speedup,
    Verdict,
    WhileNonzero,
    steps,
)
from kcurate.verdicts.naive import naive_speedup

# How many times the fast side's code a slow side may run.
WORK = 20.0
# The same where the ratio differs by `VARIES` between test sizes: then it is the algorithm's.
VARYING_WORK, VARIES = 128.0, 4.0
# Test sizes at which the fast side runs less than this share of its most code tell nothing about a ratio.
LEAST_SHARE = 1 / 8
# How many times larger than at the test sizes the ratio may be at the bench size: of code, and of times where
# code could not be counted.
WORK_GROWTH, TIME_GROWTH = 8.0, 16.0
# Idle threads: all lanes of a warp but one, and more than rounding up a few launches to whole blocks leaves.
IDLE_SHARE, LEAST_IDLE = 31 / 32, 4096
# Shared memory of a block, static or dynamic, that takes occupancy and is hardly read.
LEAST_SHARED_BYTES, SHARED_SHARE = 16 << 10, 1 / 4
# The speedup that may be claimed where the suite has no naive variant of its own; where it has one, this much
# over it, since times vary.
CAP, ROOM = 20.0, 1.1
CUT_OFF = "not shown to be minimal: the search for needless parts was cut off"


def work(slow: Counts, fast: Counts) -> float:
    """How many times the fast side's code the slow side runs."""
    return slow.code_bytes / max(1, fast.code_bytes)


def wasted(counted: Counted) -> str | None:
    """What the counts of both sides show: the first finding."""
    return next(_findings(counted), None)


def _findings(counted: Counted) -> Iterator[str]:
    if counted.endless:
        yield "the slow side runs into the time limit on the emulator, the fast side does not"
    if not counted.tests:
        return
    largest = max(counted.tests, key=lambda one: (one[1].code_bytes, one[0].code_bytes))
    telling = [one for one in counted.tests if one[1].code_bytes >= LEAST_SHARE * largest[1].code_bytes]
    slow, fast = counted.bench or largest
    limit = _most_work(telling, fast)
    if work(slow, fast) > limit:
        yield _more_code(slow, fast, f"the limit is {limit:.3g} times")
    yield from _idle(slow, fast)
    yield from _unread(counted.bench[0] if counted.bench else None, [one for one, _ in counted.tests])


def _most_work(telling: Sequence[tuple[Counts, Counts]], fast: Counts) -> float:
    """How many times the code of the fast side a slow side may run, given what both run at test sizes.

    Where the ratio grows with the test sizes, it may go on growing, at most as fast as the fast side's work.
    """
    least, most = (choose(telling, key=lambda one: work(*one)) for choose in (min, max))
    varies = work(*most) >= VARIES * work(*least)
    growth = 1.0
    if varies and most[1].code_bytes > least[1].code_bytes:
        size = math.log(most[1].code_bytes / least[1].code_bytes)
        power = min(1.0, math.log(work(*most) / work(*least)) / size)
        growth = max(1.0, fast.code_bytes / most[1].code_bytes) ** power
    allowed = VARYING_WORK if varies else WORK
    return growth * min(allowed, WORK_GROWTH * max(1.0, work(*most)))


def _more_code(slow: Counts, fast: Counts, limit: str) -> str:
    return (
        f"the slow side runs {slow.code_bytes} bytes of code where the fast side runs {fast.code_bytes}, "
        f"{work(slow, fast):.3g} times as many; {limit}"
    )


def _idle(slow: Counts, fast: Counts) -> Iterator[str]:
    """Nearly all threads of the slow side read and write nothing, and those of the fast side do."""
    if slow.idle < LEAST_IDLE or slow.idle < IDLE_SHARE * slow.threads:
        return
    if fast.threads - fast.idle > (1 - IDLE_SHARE) * fast.threads:
        yield (
            f"{slow.idle} of {slow.threads} threads of the slow side do nothing, "
            f"{fast.idle} of {fast.threads} of the fast side"
        )


def _unread(bench: Counts | None, tests: Sequence[Counts]) -> Iterator[str]:
    """Dynamic shared memory that no trial reads, or much shared memory that is hardly read at any size."""
    of_shared = [one for one in tests if one.shared_bytes]
    if of_shared and not any(one.shared_read_bytes for one in of_shared):
        size = max(one.shared_bytes for one in of_shared)
        yield f"the slow side never reads its {size} bytes of dynamic shared memory"
    if bench is None:
        return
    for kind in ("shared", "static"):
        held = max(getattr(one, f"{kind}_bytes") for one in (bench, *tests))
        read = max(getattr(one, f"{kind}_read_bytes") for one in (bench, *tests))
        if held >= LEAST_SHARED_BYTES and read < SHARED_SHARE * held:
            kind = "dynamic" if kind == "shared" else kind
            yield f"the slow side reads at most {read} of its {held} bytes of {kind} shared memory"


def grew(test: SizeTiming, bench: Speedup) -> str | None:
    """Whether the ratio of the times grows more from a test size to the bench size than hardware explains.

    For sides whose work could not be counted at the bench size. Overhead hides short times, so at the test
    size the fast side counts as at least `SHORTEST_US`, and the ratio as at least 1.
    """
    limit = TIME_GROWTH * max(1.0, test.slow_us / max(test.fast_us, SHORTEST_US))
    if bench.low <= limit:
        return None
    return (
        f"the slow side takes {bench.ratio:.3g} times as long as the fast side at the bench size, and "
        f"{test.slow_us:.3g} us where the fast side takes {test.fast_us:.3g} us at a test size; "
        f"the limit is {limit:.3g} times"
    )


def above_cap(bench: Speedup, naive: float | None) -> str | None:
    """Whether the speedup is more than a slow side that was made may claim.

    `naive`: the speedup over the suite's own naive variant, if it has one with a verdict.
    """
    limit = CAP if naive is None else ROOM * max(1.0, naive)
    if bench.low <= limit:
        return None
    other = (
        f"the suite's own naive variant gives {naive:.3g}"
        if naive
        else "there is no naive variant of its own"
    )
    return (
        f"a slow side that was made claims {bench.ratio:.3g} times: the limit is {limit:.3g}, since {other}"
    )


def unexplained(
    slow_us: float, fast_us: float, counts: tuple[Counts, Counts], registers: tuple[int, int], size: str
) -> str | None:
    """Whether the slow side takes longer than its counts explain, by itself or beside the fast side.

    `counts`, `registers`: of the slow and the fast side, as in `explained_us`.
    """
    slow, fast = zip(counts, registers, strict=True)
    by_itself_us = EXPLAINED * explained_us(*slow)
    beside_us = beside_fast_us(slow, fast, fast_us)
    if slow_us <= min(by_itself_us, beside_us):
        return None
    beside = "" if by_itself_us < beside_us else f" beside the fast side, which takes {fast_us:.3g} us,"
    return (
        f"the slow side takes {slow_us:.3g} us at {size}, and what it was counted to do on the emulator"
        f"{beside} explains {min(by_itself_us, beside_us):.3g} us at most"
    )


class MadeSlow:
    """Collects the evidence for one candidate at a time. Call `close` at the end.

    `workspace`: where to look for naive variants, beside the built-in pairs.
    """

    def __init__(self, workspace: Path | None) -> None:
        self._workspace = Workspace(workspace) if workspace is not None else None
        self._runs = CountedRuns()
        self._minimal: set[tuple[str, ...]] = set()

    def close(self) -> None:
        """End all workers."""
        self._runs.close()

    def admit_counts(self, case: Case) -> Counted | None:
        """Count what both sides do; None if the slow side was not made, or cannot be counted.

        Raises:
            Ruling: `padded`.
        """
        in_triton = any(getattr(case.candidate, side).language == "triton" for side in SIDES)
        if not made_slow(case.candidate) or in_triton:
            return None
        counted = self._runs.count(case.candidate)
        if counted is None:
            return None
        if counted.tests:
            case.add_details(work_ratio=round(max(work(slow, fast) for slow, fast in counted.tests), 3))
        if counted.bench is not None:
            case.add_details(bench_work_ratio=round(work(*counted.bench), 3))
        _refuse(wasted(counted))
        case.passed("counted_work" if counted.bench is not None else "counted_test_work")
        return counted

    def admit_times(self, case: Case, ruling: Ruling, time_size: Callable[[BenchSize], SizeTiming]) -> None:
        """Check a confirmed speedup over a slow side that was made. `time_size` times both sides.

        What both sides do is counted only now, since it takes seconds.

        Raises:
            Ruling: `padded`.
        """
        speedup, problem = case.speedup, case.candidate.problem
        if not made_slow(case.candidate) or ruling.outcome is not Outcome.CONFIRMED or speedup is None:
            return
        assert problem is not None, "plans are admitted first"
        fast = case.reports.get("fast")
        assert fast is not None and fast.median_us, "a speedup comes from times"
        others = [(one.name, one.fast_us, one.speedup) for one in case.sizes]
        for name, fast_us, claimed in [(None, fast.median_us, speedup), *others]:
            if claimed is not None:
                device = case.environment.device
                naive = naive_speedup(case.candidate, fast_us, device, self._workspace, name)
                _refuse(above_cap(claimed, naive))
        counted = self.admit_counts(case)
        if counted is None and case.candidate.origin.trust != "ours":
            text = "the emulator cannot count what the slow side does, so nothing shows that it is honest"
            raise Ruling(Outcome.UNSUPPORTED, text, side="slow")
        self._admit_slow_us(case, speedup, counted, time_size)

    def _admit_slow_us(
        self,
        case: Case,
        speedup: Speedup,
        counted: Counted | None,
        time_size: Callable[[BenchSize], SizeTiming],
    ) -> None:
        """Check that the counts explain the slow side's time: at the bench size, else at the largest test.

        Raises:
            Ruling: `padded`.
        """
        candidate, problem = case.candidate, case.candidate.problem
        slow, fast = (case.reports.get(side) for side in ("slow", "fast"))
        assert problem is not None and slow is not None and fast is not None, "a confirmed case"
        registers = (_registers(slow), _registers(fast))
        # A few blocks do not tell how many rounds a flag asks for.
        plans = (*candidate.slow.plan, *candidate.fast.plan)
        by_flag = any(isinstance(step, WhileNonzero) for step in steps(plans))
        if counted is not None and counted.bench is not None and not by_flag:
            assert slow.median_us is not None and fast.median_us is not None, "a speedup comes from times"
            _refuse(unexplained(slow.median_us, fast.median_us, counted.bench, registers, "the bench size"))
            case.passed("explained")
        elif problem.sizes.test:
            index = largest_test(problem)
            test = time_size(BenchSize("test", problem.sizes.test[index]))
            case.add_details(test_slow_us=test.slow_us, test_fast_us=test.fast_us)
            if counted is None or counted.bench is None:
                _refuse(grew(test, speedup))
            case.passed("growth")
            if counted is not None and test.slow_us:
                fast_us, counts = max(test.fast_us, SHORTEST_US), counted.tests[index]
                _refuse(unexplained(test.slow_us, fast_us, counts, registers, "the largest test size"))

    def admit_minimal(
        self, case: Case, ruling: Ruling, judge: Callable[[Candidate], Verdict], counted: bool
    ) -> Ruling:
        """The ruling on a slow side that was made, or `padded` if a part of it is needless.

        Suspects are judged beside the whole side where times are taken; else, if `counted`, counts decide.
        What is ours by the same rules is examined once.
        """
        candidate = case.candidate
        by_counts = counted and ruling.outcome is Outcome.CORRECT
        if not made_slow(candidate) or not (by_counts or ruling.outcome is Outcome.CONFIRMED):
            return ruling
        if any(getattr(candidate, side).language != "cuda" for side in SIDES):
            return ruling
        origin = candidate.origin
        rule = (origin.kind, *origin.rules, origin.suite or "") if origin.trust == "ours" else None
        if rule in self._minimal:
            return ruling
        with case.stage("needless"):
            search = suspects(self._runs, candidate, counted_only=by_counts)
            for suspect in search.suspects:
                gain = suspect.gain if by_counts else _timed_gain(candidate, suspect, judge)
                if gain is not None and gain > LEAST_GAIN:
                    case.needless = suspect.text
                    text = f"needless: without it the side stays right and takes 1/{gain:.3g} of the time"
                    return Ruling(Outcome.PADDED, f"{text}: {suspect.text}", side="slow")
        if search.complete:
            case.passed("minimal")
        else:
            case.add_details(untried_parts=search.untried)
            untried = f", {search.untried} parts untried" if search.untried else ""
            ruling.detail += f"; {CUT_OFF}{untried}"
        if rule is not None and origin.rules:
            self._minimal.add(rule)
        return ruling


def _timed_gain(
    candidate: Candidate, suspect: Suspect, judge: Callable[[Candidate], Verdict]
) -> float | None:
    """How many times longer the whole side takes than the side without a part; None where that is wrong."""
    problem = candidate.problem
    assert problem is not None, "plans are admitted first"
    verdict = judge(
        replace(
            candidate,
            fast=suspect.ablation.side,
            origin=Origin("curated"),  # the side is as trusted as it was, and examined enough
            problem=replace(problem, sizes=replace(problem.sizes, bench=problem.sizes.headline)),
        )
    )
    return verdict.speedup.low if verdict.outcome is Outcome.CONFIRMED and verdict.speedup else None


def _registers(side: SideReport) -> int:
    """The most registers of a side's kernels, a thread."""
    return max((kernel.registers or 0 for kernel in side.resources), default=FREE_REGISTERS)


def _refuse(evidence: str | None) -> None:
    if evidence is not None:
        raise Ruling(Outcome.PADDED, evidence, side="slow")
