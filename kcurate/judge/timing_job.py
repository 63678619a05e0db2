"""Prepares timing at a bench size: runs and verifies the timed trials, and keeps their inputs on the GPU.

Not covered: verifying them (`kcurate.judge.at_bench`), the timing itself (`kcurate.judge.timing`).
"""

from __future__ import annotations

from collections.abc import Mapping

from kcurate.judge.agreement import Outputs, arrays_of, differs
from kcurate.judge.at_bench import BenchRuns
from kcurate.judge.timing.decision import Expected, Peeked, TimingJob
from kcurate.judge.trials import Trial, timed_trials
from kcurate.judge.workers.protocol import Blob
from kcurate.judge.workers.requests import Close, Forget
from kcurate.problem.outputs import logical_bytes, with_companions
from kcurate.records import SIDES, BenchSize, Problem
from kcurate.records.pair import SideName


def prepare_timing(runs: BenchRuns, size: BenchSize | None = None) -> TimingJob:
    """Run and compare the timed trials of a bench size (None: the headline); the workers keep the inputs.

    Raises:
        Ruling: a side failed a trial.
    """
    case, problem, checked = runs.verification.case, runs.verification.problem, runs.verification.checked
    chosen = timed_trials(problem, runs.verification.seed, size)
    sums: dict[SideName, list[int]] = {side: [] for side in SIDES}
    expected: dict[SideName, list[tuple[Expected, ...]]] = {side: [] for side in SIDES}
    peeked: dict[SideName, list[tuple[Peeked, ...]]] = {side: [] for side in SIDES}
    expected_arrays: list[Outputs] = []
    read_back = {name for checks in checked.values() for name in checks.read_back}
    for trial in chosen:
        replies, arrays = runs.verify(trial, bring=read_back)
        expected_arrays.append(arrays)
        for side in SIDES:
            sums[side].append(sum(replies[side].body.prints[0]) % (1 << 64))
            known = runs.known[trial.slot]
            peeked[side].append(
                tuple(
                    Peeked(place, data)
                    for place, data in zip(known.places, known.peeked[side], strict=True)
                    if place.name in checked[side].by_fingerprint
                )
            )
            bounds = ((name, known.bound(problem, name)) for name in checked[side].by_element)
            expected[side].append(tuple(Expected(Close(name, bound), norm) for name, (bound, norm) in bounds))
            if not checked[side].by_element:
                runs.verification.sides[side].call(Forget((trial.slot,), inputs=False))
    case.passed("bench_outputs")

    def agree(slot: int, side: SideName, blobs: Mapping[str, Blob]) -> str | None:
        return _differs(problem, chosen[slot], checked[side].read_back, blobs, expected_arrays[slot])

    bytes_by_role: dict[str, int] = {}
    for buffer in problem.buffers.values():
        size_bytes = logical_bytes(buffer, chosen[0].sizes)
        bytes_by_role[buffer.role] = bytes_by_role.get(buffer.role, 0) + size_bytes
    moved_bytes = sum(size_bytes for role, size_bytes in bytes_by_role.items() if role != "scratch")
    return TimingJob(
        slots=tuple(trial.slot for trial in chosen),
        seed=runs.verification.seed,
        fingerprints=tuple(runs.known[trial.slot].fingerprint_salt for trial in chosen),
        written_bytes=bytes_by_role.get("out", 0),
        all_bytes=moved_bytes + bytes_by_role.get("inout", 0),
        by_fingerprint={side: checked[side].by_fingerprint for side in SIDES},
        sums={side: tuple(words) for side, words in sums.items()},
        expected=expected,
        read_back={side: tuple(with_companions(problem, checked[side].read_back)) for side in SIDES},
        peeked=peeked,
        agree=agree,
    )


def _differs(
    problem: Problem, trial: Trial, names: tuple[str, ...], blobs: Mapping[str, Blob], expected: Outputs
) -> str | None:
    """How a timed run's outputs that were read back differ from the reference's; None if they agree."""
    got = arrays_of(problem, blobs, trial.sizes, None, list(blobs))
    for name in names:
        if difference := differs(problem, trial.sizes, name, expected, got):
            return f"{name}: {difference}"
    return None
