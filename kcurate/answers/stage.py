"""`kcurate import`: published answers as candidates, each against the PyTorch module that it answers.

A row ends in one outcome, with a reason; the counts add up to the rows. Candidates go the ordinary road
afterwards. Not covered: reading rows (`answers.rows`), running answers (`answers.worker`), plans
(`answers.plans`).
"""

from __future__ import annotations

import ast
import itertools
import math
import re
import tempfile
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path
from typing import Any

from kcurate.answers import host_text, plans, rows
from kcurate.answers.building import Builder
from kcurate.answers.settings import ImportConfig
from kcurate.answers.worker import AnswerProcess
from kcurate.core import progress, store, time_limits
from kcurate.core.notes import Note, silent
from kcurate.core.runs import ordered, recorded
from kcurate.core.worker_pool import Failure, Pool
from kcurate.core.workspace import Workspace
from kcurate.cuda_source import blank_comments
from kcurate.errors import BackendError, MissingDependencyError, ProblemError
from kcurate.kernelbench.tasks import BENCH_BYTES
from kcurate.kernelbench.worker import convert_all
from kcurate.problem.check import check
from kcurate.records import Call, Candidate, Origin, Problem, Side, Sizes, Summary

STAGE = "import"
# How much wider than usual a tolerance may be, where the module's own rounding needs it.
WIDEST = 64
# Said of an answer whose bindings had to be joined with its CUDA source.
REPAIRED = "as published its extension does not build"
# Runs of an answer beside those at the problem's sizes, from which expressions are found.
MAX_SAMPLES = 16
MAX_REASON = 300
PRELOAD = ("kcurate.answers.stage",)
# A module alone, or one that a compiler of PyTorch's generated.
_TRITON = re.compile(r"@triton\.jit|\btriton_helpers\b")
# Headers of libraries that an extension includes.
_LIBRARIES = re.compile(
    r"\b(?:cublas|cudnn|cufft|cusparse|cusolver|curand|cutlass|thrust)(?=[\w/]*\.(?:h|hpp|cuh)\b)"
)


class RowOutcome(StrEnum):
    """What became of a row."""

    IMPORTED = "imported"
    LIBRARY = "library"
    GRAPH = "graph"
    RETURNS_INPUT = "returns_input"
    NOT_CUDA = "not_cuda"
    HOST_READS = "host_reads"
    NO_CODE = "no_code"
    UNREADABLE = "unreadable"
    HANGS = "hangs"
    DIES = "dies"
    NO_PROBLEM = "no_problem"
    NO_PLAN = "no_plan"


@dataclass(frozen=True)
class Imported:
    """What became of one row: with `IMPORTED` a candidate, otherwise the reason."""

    row: rows.Row | rows.Bad
    outcome: RowOutcome
    why: str = ""
    candidate: Candidate | None = None


def run(config: ImportConfig, *, note: Note = silent) -> Summary:
    """Read rows, and write the answers that can be judged into the workspace's pairs.

    Raises:
        InputError: no such format, or nothing to read. MissingDependencyError: torch, a C++ compiler or
            CUDA's headers are missing.
    """
    with recorded(STAGE, config.workspace, note=note) as record:
        workspace = Workspace(config.workspace)
        wanted = list(itertools.islice(rows.read(config.format, config.path), config.limit))
        record.begin(config)
        counts: Counter[RowOutcome] = Counter()
        with progress.bar("import", len(wanted), "row") as bar:
            for imported in imported_rows(wanted, config):
                counts[imported.outcome] += 1
                place: Path | None = None
                if imported.candidate is not None:
                    place = workspace.pairs / imported.candidate.id
                    store.write_candidate(place, imported.candidate)
                passed = imported.candidate is not None
                record.item(
                    "rows", imported.row.id, imported.outcome, imported.why, passed=passed, file=place
                )
                bar.update()
        return record.finish({"rows": ordered(Counter(map(str, counts.elements())), RowOutcome)})


def imported_rows(
    wanted: Iterable[rows.Row | rows.Bad], config: ImportConfig, until_s: float = math.inf
) -> Iterator[Imported]:
    """Import rows, several at a time; in order of completion. None is begun after `until_s` (monotonic).

    Each is read in a process that can be killed: its text, and what its process sends, are made by anybody.
    """
    with tempfile.TemporaryDirectory(prefix="kcurate-import-") as folder:
        builder = Builder(Path(folder))
        tasks = [_Task(row, builder, config, until_s) for row in wanted]
        with Pool(config.jobs, PRELOAD) as pool:
            limit_s = time_limits.READ_ANSWER_S
            for index, result in pool.run(_on_time, tasks, timeout_s=limit_s, isolate=True):
                if isinstance(result, Failure):
                    outcome = RowOutcome.HANGS if result.kind == "timeout" else RowOutcome.DIES
                    yield Imported(tasks[index].row, outcome, f"reading it: {result.detail}")
                elif result is not None:
                    yield result


@dataclass(frozen=True)
class _Task:
    row: rows.Row | rows.Bad
    builder: Builder
    config: ImportConfig
    until_s: float


def _on_time(task: _Task) -> Imported | None:
    return imported(task.row, task.builder, task.config) if time.monotonic() < task.until_s else None


def imported(row: rows.Row | rows.Bad, builder: Builder, config: ImportConfig) -> Imported:
    """One row: what its answer launches, as a side of the problem of its module."""
    if isinstance(row, rows.Bad):
        return Imported(row, RowOutcome(row.outcome), row.why)
    if "__global__" not in row.answer:
        kind = "Triton" if _TRITON.search(row.answer) else "operators of PyTorch"
        outcome = (
            RowOutcome.GRAPH if re.search(r"CUDAGraph|cuda\.graph\(", row.answer) else RowOutcome.NOT_CUDA
        )
        return Imported(row, outcome, f"no kernel in CUDA: {kind}")
    try:
        started = AnswerProcess(builder)
    except BackendError as error:
        return Imported(row, RowOutcome.DIES, error.what)
    with started as process:
        reading = _Reading(row, process, config)
        try:
            candidate = reading.candidate()
            return Imported(row, RowOutcome.IMPORTED, reading.repaired, candidate)
        except _Stopped as stop:
            return Imported(row, stop.outcome, stop.why)
        except MissingDependencyError:
            raise
        except Exception as error:  # noqa: BLE001 - its process may send anything
            why = f"its recording: {type(error).__name__}: {error}"[:MAX_REASON]
            return Imported(row, RowOutcome.UNREADABLE, why)


class _Stopped(Exception):  # noqa: N818 - the outcome of a row
    def __init__(self, outcome: RowOutcome, why: str) -> None:
        super().__init__(why)
        self.outcome, self.why = outcome, why


class _Reading:
    """One answer in its process."""

    def __init__(self, row: rows.Row, process: AnswerProcess, config: ImportConfig) -> None:
        self.row, self.process, self.config = row, process, config
        self.reference, self.repaired = row.reference, ""

    def candidate(self) -> Candidate:
        """The candidate.

        Raises:
            _Stopped: there is none.
        """
        first = self._record({})
        if not any(event["kind"] == "launch" for event in first["events"]):
            same = any(place.get("at") == out["at"] for place in first["inputs"] for out in first["outputs"])
            what = "it returns its input" if same else "it launches no kernel of its own"
            raise _Stopped(RowOutcome.RETURNS_INPUT if same else RowOutcome.NOT_CUDA, _with(what, first))
        if first["repaired"]:
            self.repaired = f"{REPAIRED}: {first['repaired'][0]}"
        module = convert_all({"module": self.reference}, BENCH_BYTES, WIDEST)["module"]
        if module.problem is None or module.side is None:
            raise _Stopped(RowOutcome.NO_PROBLEM, module.why)
        self.reference = module.side.code
        try:
            problem, fast = self._planned(module.problem, module.side)
        except plans.NoPlan as error:
            if self.repaired:
                self.process.as_published, self.repaired, self.reference = True, "", self.row.reference
                return self.candidate()
            raise _Stopped(RowOutcome.NO_PLAN, str(error)) from error
        return self._checked(problem, module.side, fast)

    def _record(self, sizes: Mapping[str, int]) -> dict[str, Any]:
        recording = self.process.record(self.row.answer, self.reference, sizes, self.config.seconds)
        fails = recording.get("ended") == RowOutcome.UNREADABLE
        if fails and recording["repaired"] and recording["failed"] and not self.process.as_published:
            self.process.as_published = True  # joined, its code refuses its calls: nobody ever ran that
            return self._record(sizes)
        if "ended" in recording:
            library = _LIBRARIES.search(" ".join(map(str, recording["failed"])))
            if library is not None:
                raise _Stopped(RowOutcome.LIBRARY, f"it calls {library[0]}")
            raise _Stopped(RowOutcome(recording["ended"]), _with(str(recording["detail"]), recording))
        return recording

    def _planned(self, problem: Problem, slow: Side) -> tuple[Problem, Side]:
        """The plan, and the problem with the test sizes at which it is that of the answer."""
        (call,) = slow.plan
        assert isinstance(call, Call)
        bench = dict(problem.sizes.headline)
        recordings = [(bench, self._record(bench))]
        shape = plans.form(recordings[0][1])
        tests = [dict(sizes) for sizes in problem.sizes.test if self._like(dict(sizes), shape, recordings)]
        for sizes in _around(bench, len(tests) < len(problem.sizes.test)):
            if len(recordings) < MAX_SAMPLES:
                self._like(sizes, shape, recordings)
        tests = tests or _smallest(recordings)
        problem = replace(
            problem, sizes=Sizes(tuple(tests or [bench]), problem.sizes.bench), single_size=not tests
        )
        source = "\n".join(_cuda_texts(self.row.answer)).encode()
        launched = {event["name"] for event in recordings[0][1]["events"] if event["kind"] == "launch"}
        code = host_text.device_code(source, launched)
        if code is None:
            raise plans.NoPlan("its kernels are not in its text")
        return problem, plans.plan(code, recordings, problem, call)

    def _like(
        self, sizes: dict[str, int], shape: object, recordings: list[tuple[dict[str, int], Any]]
    ) -> bool:
        """Whether the answer launches in the same form at these sizes; if so, the recording is kept."""
        try:
            recording = self._record(sizes)
        except _Stopped as stop:
            if stop.outcome in (RowOutcome.HANGS, RowOutcome.DIES):
                raise
            return False
        same = plans.form(recording) == shape
        if same:
            recordings.append((sizes, recording))
        return same

    def _checked(self, problem: Problem, slow: Side, fast: Side) -> Candidate:
        suite = self.config.suite or self.config.path.resolve().stem
        parts = [rows.part_of_path(suite), self.row.task, self.row.id]
        candidate = Candidate(
            id="/".join(dict.fromkeys(parts)),
            family=f"{parts[0]}-{parts[1]}".lower(),
            domain="deep-learning",
            license=self.config.licence,
            origin=Origin(
                "imported", suite=suite, url=self.config.url, made="fast", problem="captured",
                item=self.row.id, claim=self.row.claim,
            ),
            techniques=(),
            description=f"Published answer {self.row.id} to a PyTorch module, against eager PyTorch.",
            problem=problem,
            slow=slow,
            fast=fast,
        )  # fmt: skip
        try:
            issues = check(candidate)
        except ProblemError as error:
            raise _Stopped(RowOutcome.NO_PLAN, error.what) from error
        if issues:
            raise _Stopped(RowOutcome.NO_PLAN, str(issues[0]))
        return candidate


def _with(what: str, recording: Mapping[str, Any]) -> str:
    """A reason, and what went wrong with the answer's extension before."""
    for key, meaning in (("failed", "its own code was not used"), ("repaired", REPAIRED)):
        if recording[key]:
            what += f"; {meaning}: {recording[key][0]}"
    return what


def _around(bench: Mapping[str, int], far: bool) -> Iterator[dict[str, int]]:
    """Other sizes, one changed at a time; `far`: further smaller ones."""
    for factor in (2, 4, 8, 16, 3) if far else (2, 4):
        for name, value in bench.items():
            if value // factor >= 1 and value > factor:
                yield {**bench, name: value // factor}
    for name, value in bench.items():
        yield {**bench, name: value + max(1, value // 8)}


def _smallest(recordings: list[tuple[dict[str, int], Any]]) -> list[dict[str, int]]:
    """The settings with the least memory, to verify at."""
    others = sorted(recordings[1:], key=lambda item: sum(size for _, size, _ in item[1]["memory"]))
    return [sizes for sizes, _ in others[:3]]


def _cuda_texts(answer: str) -> list[str]:
    """The string literals of an answer that hold device code."""
    try:
        tree = ast.parse(answer)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return []
    texts = [
        node.value
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    ]
    return [text for text in texts if "__global__" in blank_comments(text.encode()).decode()]
