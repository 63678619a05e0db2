"""Checks completed drafts (by people or models): read, run on the emulator or a GPU, admitted or refused.

Not covered: making a draft (`stage`), parsing the file (`toml_reader`).
"""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from kcurate.backends.choice import choose
from kcurate.core import progress, store
from kcurate.core.notes import Note, silent
from kcurate.core.runs import recorded
from kcurate.core.workspace import Workspace
from kcurate.draft.file import toml_reader
from kcurate.draft.size_settings import MAX_BENCH_ELEMENTS, MAX_TEST_ELEMENTS
from kcurate.draft.trying import admit
from kcurate.errors import InputError
from kcurate.judge import Judge, JudgeConfig
from kcurate.judge.counted_runs import CountedRuns
from kcurate.problem.check import check as check_problem
from kcurate.problem.outputs import elements
from kcurate.problem.size_gaps import advice
from kcurate.records import Candidate, Outcome, Problem, Summary, Verdict
from kcurate.suites.problems import tied

RECORD_NAME = "problem.json"
LEAST_SETTINGS = 2


class AdmittingJudge:
    """The judge of drafts: the emulator, and a GPU, if one is given, for what the emulator cannot decide.

    That is what takes too long there, or needs instructions that it lacks, or more elements than
    `MAX_TEST_ELEMENTS`. Both judges open on first use and open again if they break.
    """

    def __init__(self, gpu: int | None = None) -> None:
        self._gpu = gpu
        self._judges: dict[str, Judge] = {}
        self._runs = CountedRuns()
        self.most_elements = MAX_TEST_ELEMENTS if gpu is None else MAX_BENCH_ELEMENTS

    @classmethod
    def on(cls, gpu: str) -> AdmittingJudge:
        """With the first GPU that `--gpu` names, or with none; `auto`: the first, if there is one.

        Raises:
            InputError, MissingDependencyError: not a list of GPUs, or one that is not there.
        """
        place = choose("auto", gpu)
        return cls(place.gpus[0] if place.backend == "cuda" else None)

    def __call__(self, candidate: Candidate) -> Verdict:
        """The emulator's verdict, or that of the GPU."""
        if self._gpu is None:
            return self._ask("emulator", candidate)
        if largest_buffer(candidate.problem) <= MAX_TEST_ELEMENTS:
            verdict = self._ask("emulator", candidate)
            if verdict.outcome not in (Outcome.TIMEOUT, Outcome.UNSUPPORTED):
                return verdict
        return self._ask("cuda", candidate)

    def _ask(self, backend: str, candidate: Candidate) -> Verdict:
        judge = self._judges.get(backend)
        if judge is None or not judge.usable:
            if judge is not None:
                judge.close()
            config = JudgeConfig(backend, self._gpu or 0, timed=False, sanitize=backend == "emulator")
            judge = self._judges[backend] = Judge(config)
        return judge.judge(candidate)

    def reach(self, candidate: Candidate) -> Sequence[Mapping[str, int]] | None:
        """How far the kernel goes into its buffers on the emulator; see `CountedRuns.reach`."""
        return self._runs.reach(candidate)

    def close(self) -> None:
        """Stop the workers."""
        self._runs.close()
        for judge in self._judges.values():
            judge.close()
        self._judges.clear()


def count_different(settings: Sequence[Mapping[str, int]]) -> int:
    """How many of the size settings differ."""
    return sum(setting not in settings[:i] for i, setting in enumerate(settings))


def largest_buffer(problem: Problem | None) -> int:
    """The elements of the largest buffer at any test size."""
    settings, buffers = (problem.sizes.test, problem.buffers.values()) if problem is not None else ((), ())
    return max((elements(buffer, sizes) for sizes in settings for buffer in buffers), default=0)


def check(
    files: Sequence[Path],
    workspace_root: Path,
    *,
    note: Note = silent,
    on_fault: Callable[[toml_reader.Fault], None] = lambda _: None,
    report: Callable[[Summary], None] = lambda _: None,
) -> Summary:
    """Check completed files; an admitted one is written as `problem.json` beside its kernel.

    If a file is refused, its kernel's `problem.json` is removed. `on_fault` receives every fault, `report`
    the summary before anything is raised.

    Raises:
        InputError: a file cannot be read, is incomplete, or is refused. All files are checked first, and
            `note` receives one line per fault.
    """
    with recorded("problem check", workspace_root, note=note) as record:
        record.begin({"files": files, "workspace": workspace_root})
        workspace = Workspace(workspace_root)
        counts: Counter[str] = Counter()
        faulty: list[toml_reader.Fault] = []
        with contextlib.closing(AdmittingJudge()) as judge:
            for path in progress.each(files, "problem check", unit="file"):
                try:
                    form = toml_reader.read(path)
                    faults_of_file = _checked(form, workspace, judge)
                except InputError as error:
                    faults_of_file = [toml_reader.Fault(path, None, error.what)]
                counts["refused" if faults_of_file else "admitted"] += 1
                if not faults_of_file:
                    record.note(f"{path}: admitted, {_folder(form, workspace) / RECORD_NAME}")
                    if (line := _advice(form)) is not None:
                        record.note(f"{path}: {line}")
                for fault in faults_of_file:
                    record.note(str(fault))
                    on_fault(fault)
                why, then = "; ".join(map(str, faults_of_file)), ("problem", "check", path)
                outcome = "refused" if faults_of_file else "admitted"
                record.item("files", str(path), outcome, why, passed=not faults_of_file, file=path, then=then)
                faulty += faults_of_file[:1]
        summary = record.finish({"files": dict(counts)})
        report(summary)
        if faulty:
            hint = f"{counts['refused']} of {len(files)} files cannot be used yet"
            raise InputError(faulty[0].what, where=faulty[0].where, hint=hint)
        return summary


def _checked(form: toml_reader.Form, workspace: Workspace, judge: AdmittingJudge) -> list[toml_reader.Fault]:
    """A file's faults; its kernel's record is written, or removed if the file is refused."""
    folder = _folder(form, workspace)
    found_faults = [*form.faults]
    try:
        code = store.read_kernel_code(folder)
    except InputError:
        what = f"no kernel {form.kernel!r} in {workspace.kernels}"
        return found_faults or [
            toml_reader.Fault(form.path, toml_reader.line_of(form.text, "draft.kernel"), what)
        ]
    if form.known is not None and not found_faults:
        found_faults = faults(form, code, judge)
        if not found_faults:
            store.write_json(folder / RECORD_NAME, tied(form.known, code))
    if found_faults:
        store.remove(folder / RECORD_NAME)
    return found_faults


def _advice(form: toml_reader.Form) -> str | None:
    """What the test sizes of an admitted file leave untested."""
    assert form.known is not None, "it was admitted"
    return advice(
        form.known.problem, {name or "kernel": side.side("") for name, side in form.known.sides.items()}
    )


def _folder(form: toml_reader.Form, workspace: Workspace) -> Path:
    """The folder of a file's kernel: the file's own folder, else found by name."""
    folder = form.path.parent
    return folder if store.exists(folder / "kernel.json") else workspace.kernels / (form.kernel or "")


def faults(form: toml_reader.Form, code: str, judge: AdmittingJudge) -> list[toml_reader.Fault]:
    """Faults found in a complete file by the problem check and the emulator."""
    known = form.known
    assert known is not None, "the form was parsed"
    settings = known.problem.sizes.test
    if count_different(settings) < (LEAST_SETTINGS if known.problem.sizes.headline else 1):
        line = toml_reader.line_of(form.text, "problem.sizes.test")
        return [toml_reader.Fault(form.path, line, f"fewer than {LEAST_SETTINGS} different size settings")]
    issues = check_problem(admit.plain_candidate(known, code, form.kernel or ""))
    if issues:
        return [*dict.fromkeys(form.fault(issue) for issue in issues)]
    result = judge(admit.candidate(known, code, form.kernel or ""))
    if result.outcome is Outcome.CORRECT:
        return []
    line = toml_reader.line_of(form.text, "sides")
    return [toml_reader.Fault(form.path, line, f"{result.outcome}: {result.detail}", result)]
