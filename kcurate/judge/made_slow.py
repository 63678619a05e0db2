"""Collects evidence on whether a slow side that a rule or a model wrote is slow on purpose.

`MadeSlow` counts work, takes times and searches for needless parts. Each `admit_*` raises or returns `padded`
if the evidence exceeds a limit of `kcurate.judge.made_slow_limits`. Not covered: counting
(`kcurate.judge.counted_runs`), the search for parts to leave out (`kcurate.judge.needless`), patterns in the
text (`checks.sham_work`), memory that no kernel reads (`checks.unread`). Slow sides
of other origin are not examined.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from kcurate.core.workspace import Workspace
from kcurate.judge.admission import made_slow
from kcurate.judge.case import Case, Ruling
from kcurate.judge.counted_runs import Counted, CountedRuns
from kcurate.judge.explained import FREE_REGISTERS
from kcurate.judge.made_slow_limits import above_cap, code_ratio, ratio_grew_too_much, unexplained, wasted
from kcurate.judge.needless import LEAST_GAIN, TIMED, Suspect, suspects
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

CUT_OFF = "not shown to be minimal: the search for needless parts was cut off"


class MadeSlow:
    """Collects the evidence for one candidate at a time. Call `close` at the end.

    `workspace`: where to look for naive variants, besides the built-in pairs. `minimal`: rewrite rules with
    at least one side in which an earlier search found nothing needless.
    """

    def __init__(self, workspace: Path | None, minimal: frozenset[str] = frozenset()) -> None:
        self._workspace = Workspace(workspace) if workspace is not None else None
        self._runs = CountedRuns()
        self._minimal_templates = set(minimal)

    def close(self) -> None:
        """End all workers."""
        self._runs.close()

    def admit_counts(self, case: Case) -> Counted | None:
        """Count both sides' work; None for a slow side of other origin, or if it cannot be counted.

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
            case.add_details(work_ratio=round(max(code_ratio(slow, fast) for slow, fast in counted.tests), 3))
        if counted.bench is not None:
            case.add_details(bench_work_ratio=round(code_ratio(*counted.bench), 3))
        _refuse(wasted(counted))
        case.passed("counted_work" if counted.bench is not None else "counted_test_work")
        return counted

    def admit_times(self, case: Case, ruling: Ruling, time_size: Callable[[BenchSize], SizeTiming]) -> None:
        """Check a confirmed speedup over a slow side that a rule or a model wrote.

        `time_size` times both sides at a size. Work is counted only now, since that takes seconds.

        Raises:
            Ruling: `padded`.
        """
        speedup, problem = case.speedup, case.candidate.problem
        if not made_slow(case.candidate) or ruling.outcome is not Outcome.CONFIRMED or speedup is None:
            return
        assert problem is not None, "plans are admitted first"
        fast = case.reports.get("fast")
        assert fast is not None and fast.median_us, "a speedup comes from times"
        others = [(timing.name, timing.fast_us, timing.speedup) for timing in case.sizes]
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
        # The few blocks sampled at the bench size may leave a `WhileNonzero` loop after other iterations.
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
                _refuse(ratio_grew_too_much(test, speedup))
            case.passed("growth")
            if counted is not None and test.slow_us:
                fast_us, counts = max(test.fast_us, SHORTEST_US), counted.tests[index]
                _refuse(unexplained(test.slow_us, fast_us, counts, registers, "the largest test size"))

    def admit_minimal(
        self, case: Case, ruling: Ruling, judge: Callable[[Candidate], Verdict], counted: bool
    ) -> Ruling:
        """Return `ruling`, or `padded` if a part of a slow side that a rule or a model wrote is needless.

        A suspect is a part whose removal leaves the outputs correct, such as a second `__syncthreads()`. For
        a confirmed case, `judge` times the slow side against itself without the suspect. For a case that was
        only found correct, counts decide if `counted`. Sides that our rules wrote are searched only until
        each of their rules has one side in which nothing was needless.
        """
        candidate = case.candidate
        by_counts = counted and ruling.outcome is Outcome.CORRECT
        if not made_slow(candidate) or not (by_counts or ruling.outcome is Outcome.CONFIRMED):
            return ruling
        if any(getattr(candidate, side).language != "cuda" for side in SIDES):
            return ruling
        templates = candidate.origin.templates
        if templates and templates <= self._minimal_templates:
            return ruling
        with case.stage("needless"):
            search = suspects(self._runs, candidate, counted_only=by_counts)
            if by_counts:
                needless, undecided = _needless_by_counts(search.suspects), 0
            else:
                needless, undecided = _needless_by_time(candidate, search.suspects, judge)
        if needless is not None:
            suspect, gain = needless
            case.needless = suspect.text
            text = f"needless: without it the side stays right and takes 1/{gain:.3g} of the time"
            return Ruling(Outcome.PADDED, f"{text}: {suspect.text}", side="slow")
        untried = search.untried + undecided
        complete = search.complete and untried == search.untried
        if complete:
            case.passed("minimal")
        else:
            case.add_details(untried_parts=untried)
            ruling.detail += f"; {CUT_OFF}" + (f", {untried} parts untried" if untried else "")
        if complete:
            self._minimal_templates |= templates
        return ruling


def _needless_by_counts(suspects_by_gain: Sequence[Suspect]) -> tuple[Suspect, float] | None:
    """The first suspect with a gain above `LEAST_GAIN`, and the gain."""
    gains = ((suspect, suspect.gain) for suspect in suspects_by_gain if suspect.gain is not None)
    return next(((suspect, gain) for suspect, gain in gains if gain > LEAST_GAIN), None)


def _needless_by_time(
    candidate: Candidate, suspects_by_gain: Sequence[Suspect], judge: Callable[[Candidate], Verdict]
) -> tuple[tuple[Suspect, float] | None, int]:
    """Time the first `TIMED` suspects; the first that is needless, and its gain (lower confidence bound).

    Else None, and the number of suspects that the timings left undecided.
    """
    timed: list[tuple[Suspect, Verdict]] = []
    for suspect in suspects_by_gain[:TIMED]:
        verdict = judge(_against_itself(candidate, suspect))
        timed.append((suspect, verdict))
        confirmed = verdict.speedup if verdict.outcome is Outcome.CONFIRMED else None
        if confirmed is not None and confirmed.low > LEAST_GAIN:
            return (suspect, confirmed.low), 0
    return None, _undecided(suspects_by_gain, timed)


def _against_itself(candidate: Candidate, suspect: Suspect) -> Candidate:
    """A pair of the slow side and itself without a suspect, with only the headline bench size."""
    problem = candidate.problem
    assert problem is not None, "plans are admitted first"
    return replace(
        candidate,
        fast=suspect.ablation.side,
        origin=Origin("curated"),  # else `MadeSlow` would examine it in turn
        problem=replace(problem, sizes=replace(problem.sizes, bench=problem.sizes.headline)),
    )


def _undecided(suspects_by_gain: Sequence[Suspect], timed: Sequence[tuple[Suspect, Verdict]]) -> int:
    """The number of suspects of which timing has not shown whether they are needless.

    A suspect is decided if it was timed without noise or a failure of the harness, or if a larger suspect
    that contains it was timed and is not needless.
    """
    not_needless = [
        suspect for suspect, verdict in timed if verdict.outcome in (Outcome.CONFIRMED, Outcome.NOT_FASTER)
    ]
    untimed = suspects_by_gain[len(timed) :]
    covered = [
        any(larger.ablation.covers(suspect.ablation) for larger in not_needless) for suspect in untimed
    ]
    return covered.count(False) + sum(_is_undecided(verdict) for _, verdict in timed)


def _is_undecided(verdict: Verdict) -> bool:
    """Whether a timing was too noisy, or the harness failed, so that the suspect may still be needless."""
    may_be_needless = verdict.speedup is None or verdict.speedup.high > LEAST_GAIN
    return verdict.outcome is Outcome.HARNESS_ERROR or (
        verdict.outcome is Outcome.AMBIGUOUS_TIMING and may_be_needless
    )


def _registers(side: SideReport) -> int:
    """The most registers per thread of a side's kernels."""
    return max((kernel.registers or 0 for kernel in side.resources), default=FREE_REGISTERS)


def _refuse(evidence: str | None) -> None:
    if evidence is not None:
        raise Ruling(Outcome.PADDED, evidence, side="slow")
