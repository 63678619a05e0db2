"""The stage: kernels in, a draft file beside each, admitted or not, with counts.

`problem.toml` is written beside `kernel.json`; an admitted draft also becomes `problem.json`, a known problem
that deopt uses. Not covered: making a draft (`from_code`), trying and writing one (`draft_choice`), files
completed by people (`completed_files`).
"""

from __future__ import annotations

import contextlib
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from pathlib import Path

from kcurate.core import progress, store, time_limits
from kcurate.core.cluster import workers
from kcurate.core.notes import Note, silent
from kcurate.core.runs import Run, recorded
from kcurate.core.worker_pool import Failure
from kcurate.core.workspace import Workspace
from kcurate.cuda_source.text.demangled_names import Demangled
from kcurate.draft.captured.from_launches import recorded as of_capture
from kcurate.draft.captured.launch_records import Captures
from kcurate.draft.captured.triton_launches import of_triton
from kcurate.draft.file import toml_reader
from kcurate.draft.for_pairs import shared_problem
from kcurate.draft.for_pairs.other_kernel import FORM_NAME as FORM_NAME
from kcurate.draft.host import host_files
from kcurate.draft.inferred import from_code
from kcurate.draft.settings import DraftConfig
from kcurate.draft.sketch import Reason
from kcurate.draft.trying.completed_files import RECORD_NAME, AdmittingJudge
from kcurate.draft.trying.draft_choice import SINGLE_SIZE, Complete, Settled, Settling
from kcurate.draft.trying.model_proposals import Proposing
from kcurate.errors import BackendError, InputError, KcurateError, MissingDependencyError, ProblemError
from kcurate.evaluation.local_client import client_of
from kcurate.models.naming import parse_model
from kcurate.models.opening import Spending, open_asking
from kcurate.records import Kernel, KnownProblem, Outcome, Summary
from kcurate.suites.problems import find_problem, is_of

NO_HOST_CODE = "no host code found"
# Advice on a problem admitted at one size: that of recorded launches, or of constants in the code.
SECOND = 'for a second size run a program that takes one as an argument: kcurate capture --also "ARGS"'
FIXED = "constants of the code: kcurate build refuses its pairs, since another size is another kernel"


def draft(
    config: DraftConfig,
    *,
    note: Note = silent,
    complete: Complete | None = None,
    on_kernel: Callable[[str, Settled], None] = lambda *_: None,
    report: Callable[[Summary], None] = lambda _: None,
) -> Summary:
    """Draft a problem for every kernel that has none, try it, and write `problem.toml` beside the kernel.

    `on_kernel` receives every kernel's id and outcome, `report` the summary before anything is raised about
    them. Natural pairs of these kernels that have no problem get one if both sides solve it alike.

    Raises:
        InputError: a path is no kernel, a record cannot be read, a tree does not exist, a kernel named by the
            user is never launched, or the model cannot be asked within a budget.
        MissingDependencyError: a package or key for the model is missing, or the GPU that is named.
        BudgetSpentError, RemoteError: the model was not asked about every kernel; all answers are saved.
    """
    with recorded("problem draft", config.workspace, note=note) as record, contextlib.ExitStack() as stack:
        workspace = Workspace(config.workspace)
        proposing = _proposing(config, workspace, stack, record.note)
        complete = proposing or complete
        trees = host_files.roots(config.trees, workspace)
        paths = list(_records(config.kernels, workspace))
        counts: defaultdict[str, Counter[str]] = defaultdict(Counter)
        errors: list[Exception] = []
        unlaunched, names = list[str](), list[str]()
        record.begin(config)
        with contextlib.closing(AdmittingJudge.on(config.gpu)) as judge:
            captures = Captures(workspace, record.note)
            drafted = _all(paths, config, trees, judge, captures)
            for path, draft in progress.each(drafted, "problem draft", len(paths), "kernel"):
                draft = _completed(path, draft, judge, complete)
                name, settled = draft.name, draft.settled
                on_kernel(name, settled)
                errors += [draft.error] if draft.error is not None else []
                counts["kernels"][settled.outcome] += 1
                if settled.why:
                    counts[settled.outcome][settled.why] += 1
                unlaunched += [name] if settled.why == Reason.NO_LAUNCH_SITE else []
                names.append(name)
                add_kernel(record, path, name, settled)
            for pair_id, result in shared_problem.complete_pairs(workspace, names, judge, note=record.note):
                passed, then = result.pair is not None, ("show", pair_id)
                record.item("pairs", pair_id, result.outcome, result.why, passed=passed, then=then)
                counts["pairs"][result.outcome] += 1
        if proposing is not None:
            counts["requests"] = Counter({str(kind): n for kind, n in proposing.asking.counts.items()})
            record.note(proposing.asking.spent())
            errors += [proposing.failure] if proposing.failure is not None else []
        summary = record.finish(
            {kind: dict(sorted(group.items())) for kind, group in counts.items() if group}
        )
        report(summary)
        if errors:
            raise errors[0]
        if config.kernels and unlaunched:
            raise _never_launched(unlaunched)
        return summary


def add_kernel(run: Run, record: Path, name: str, settled: Settled) -> None:
    """Add and note a kernel, passed if deopt can use its problem: the suite's, or an admitted one.

    `record`: its `kernel.json`.
    """
    outcome, line = settled.outcome, settled.line
    advice = f"; {SECOND if settled.recorded else FIXED}" if outcome == SINGLE_SIZE else ""
    run.note(f"{name}: {line}{advice}")
    form = record.with_name(FORM_NAME)
    passed = outcome == "known" or store.exists(record.with_name(RECORD_NAME))
    run.item("kernels", name, outcome, line, passed=passed, file=form, then=("problem", "check", form))


def _never_launched(kernels: Sequence[str]) -> InputError:
    hint = f"run it: kcurate capture -- ./program; or fill in the plan in its {FORM_NAME}, or name --tree"
    return InputError("no launch of this kernel was found", where=", ".join(kernels), hint=hint)


def _proposing(
    config: DraftConfig, workspace: Workspace, stack: contextlib.ExitStack, note: Note
) -> Proposing | None:
    """The conversation with the model that fills in open places; None without `--model`."""
    if config.model is None:
        return None
    spending = Spending(config.max_usd, config.price, config.max_tokens)
    name, options = parse_model(config.model), {"effort": config.effort}
    client = client_of(name, config.max_tokens)
    asking = open_asking(
        name,
        workspace.transcripts,
        spending,
        timeout_s=config.timeout_s,
        options=options,
        client=client,
        note=note,
    )
    proposing = Proposing(asking)
    stack.callback(proposing.asking.client.close)
    return proposing


def _records(kernels: Sequence[str], workspace: Workspace) -> Iterator[Path]:
    """Every selected `kernel.json`, sorted, without duplicates."""
    if not kernels:
        written = list(store.find(workspace.kernels, "kernel.json"))
        if not written:
            raise InputError(
                "no kernels", where=str(workspace.kernels), hint="run kcurate extract TREE first"
            )
        yield from written
        return
    yielded: set[Path] = set()
    for name in kernels:
        # An id is often a path in the source tree too, which has no records.
        places = (Path(name), workspace.kernels / name)
        paths = [path for path in places if store.exists(path) or store.is_folder(path)]
        if not paths:
            raise InputError(
                "no such kernel or folder", where=name, hint=f"ids are paths below {workspace.kernels}"
            )
        folders = (path.parent if store.exists(path) else path for path in paths)
        records = next(
            (written for folder in folders if (written := list(store.find(folder, "kernel.json")))), []
        )
        if not records:
            raise InputError("no kernel here", where=name, hint="run kcurate extract TREE first")
        yield from (record for record in records if record not in yielded)
        yielded |= set(records)


@dataclass(frozen=True)
class _Drafted:
    """The outcome of a kernel (None: its record cannot be read); `error` is raised when all are drafted."""

    name: str
    settled: Settled
    kernel: Kernel | None = None
    error: Exception | None = None


@dataclass(frozen=True)
class _Task:
    """A kernel to draft in a worker process."""

    record: Path
    config: DraftConfig
    trees: Sequence[Path]


def _all(
    paths: Sequence[Path],
    config: DraftConfig,
    trees: Sequence[Path],
    judge: AdmittingJudge,
    captures: Captures,
) -> Iterator[tuple[Path, _Drafted]]:
    """Every kernel with its draft, in order; in this process if `jobs` is 1, else in workers."""
    if config.local or (config.ray is None and len(paths) < 2):
        yield from ((path, _draft(path, config, trees, judge, captures)) for path in paths)
        return
    tasks = [_Task(path, config, trees) for path in paths]
    early: dict[int, _Drafted] = {}
    following = 0
    jobs = min(config.jobs or len(paths), len(paths))
    with workers(jobs, (__name__,), ray=config.ray) as pool:
        results = pool.run(
            _in_worker, tasks, timeout_s=time_limits.STAGE_TASK_S, cpu_s=time_limits.DRAFT_CPU_S
        )
        for index, result in results:
            early[index] = result if isinstance(result, _Drafted) else _lost(paths[index], result)
            while following in early:
                yield paths[following], early.pop(following)
                following += 1


def _lost(record: Path, failure: Failure) -> _Drafted:
    """A kernel that used up its CPU time, or killed the worker that drafted it."""
    kernel = store.read_json(record, Kernel)
    why = f"drafting it: {failure.kind}: {failure.detail}"
    if failure.kind == "timeout":
        return _Drafted(kernel.id, Settled("refused", str(Outcome.TIMEOUT), why), kernel)
    error = BackendError(why, where=str(record))
    return _Drafted(kernel.id, Settled("failed", "", why), kernel, error)


def _in_worker(task: _Task) -> _Drafted:
    config = task.config
    return _draft(task.record, config, task.trees, *_tools(config.workspace, config.gpu))


@cache
def _tools(workspace: Path, gpu: str) -> tuple[AdmittingJudge, Captures]:
    """A worker's own judge, which dies with it, and the records."""
    return AdmittingJudge.on(gpu), Captures(Workspace(workspace), silent)


def _draft(
    record: Path, config: DraftConfig, trees: Sequence[Path], judge: AdmittingJudge, captures: Captures
) -> _Drafted:
    """Draft one kernel; its errors do not stop the others.

    Raises:
        MissingDependencyError, BackendError: no kernel can be tried.
    """
    name, kernel = str(record), None
    try:
        kernel = store.read_json(record, Kernel)
        name = kernel.id
        return _Drafted(name, _one(record, kernel, config, trees, judge, captures), kernel)
    except Exception as error:  # noqa: BLE001 - raised after the summary of all
        settled, failed = _ended_by(error)
        if failed is not None and not (isinstance(error, KcurateError) or config.local):
            failed = RuntimeError(settled.line)  # of another process
        return _Drafted(name, settled, kernel, failed)


def _ended_by(error: Exception) -> tuple[Settled, Exception | None]:
    """The outcome of a kernel whose draft raised an error, and what to raise about it when all are drafted.

    Raises:
        MissingDependencyError, BackendError: no kernel can be tried.
    """
    if isinstance(error, ProblemError):
        return Settled("refused", str(Outcome.MALFORMED), error.what), None
    if isinstance(error, MissingDependencyError | BackendError):
        raise error
    return Settled("failed", "", f"{type(error).__name__}: {error}"), error


def _completed(record: Path, drafted: _Drafted, judge: AdmittingJudge, complete: Complete | None) -> _Drafted:
    """The result with its draft on file completed by `complete`, if the completed draft is admitted."""
    settled, kernel = drafted.settled, drafted.kernel
    is_incomplete = settled.outcome in ("open", "refused", "kept")
    if complete is None or kernel is None or not is_incomplete or drafted.error is not None:
        return drafted
    if store.exists(record.with_name(RECORD_NAME)) or not store.exists(record.with_name(FORM_NAME)):
        return drafted
    try:
        code = store.read_kernel_code(record.parent)
        completed = Settling(record, kernel, code, judge).completed(complete)
    except Exception as error:  # noqa: BLE001 - raised after the summary of all
        completed, failed = _ended_by(error)
        drafted = replace(drafted, error=failed)
    return replace(drafted, settled=completed) if completed is not None else drafted


def _one(
    record: Path,
    kernel: Kernel,
    config: DraftConfig,
    trees: Sequence[Path],
    judge: AdmittingJudge,
    captures: Captures,
) -> Settled:
    """Draft one kernel: from recorded launches, else from host code, else from the kernel alone."""
    code = store.read_kernel_code(record.parent)
    path = record.parent / FORM_NAME
    if not config.known and _has_problem(kernel, code):
        return Settled("known", "", "its suite has a problem for it")
    if store.exists(path) and not config.again:
        return _kept(path, code)
    store.remove(record.parent / RECORD_NAME)
    if kernel.language == "triton":
        capture = captures.of_triton(kernel)
        if capture is None:
            return Settled("open", str(Reason.NO_LAUNCH_SITE), "no launch was recorded: run kcurate capture")
        triton = partial(of_triton, kernel, code, capture, judge.most_elements)
        return Settling(record, kernel, code, judge).settle_recorded(triton)
    units = host_files.hosts(kernel, trees)
    capture = captures.of(kernel, code)
    if capture is not None and not kernel.instantiations and Demangled.of(capture.kernel).template:
        template = ", ".join(Demangled.of(capture.kernel).template)
        kernel = replace(kernel, instantiations=(f"{kernel.name}<{template}>",))
    settling = Settling(record, kernel, code, judge)
    texts = from_code.drafts(kernel, code, units)
    if capture is not None:
        cuda = partial(of_capture, kernel, code, capture, texts[0], most_elements=judge.most_elements)
        return settling.settle_recorded(cuda, texts[0])
    if units or host_files.has_own_launch(kernel):
        return settling.settle_texts(texts, ())
    heading = (f"{NO_HOST_CODE}: sizes and values are made up; name the sources with --tree",)
    settled = settling.settle_texts(texts, heading)
    return settled._replace(line=f"{settled.line}; {NO_HOST_CODE}")


def _kept(path: Path, code: str) -> Settled:
    """Keep an existing file; a record that was admitted for different code is removed."""
    record = path.with_name(RECORD_NAME)
    if store.exists(record):
        current = is_of(store.read_json(record, KnownProblem), code)
    else:
        current = toml_reader.read(path).code_id in (None, store.content_id(code))
    if current:
        return Settled("kept", "", f"{path} exists (--again redrafts it)")
    store.remove(record)
    line = f"{path} was made for other code (problem check tries it, --again redrafts it)"
    return Settled("outdated", "", line)


def _has_problem(kernel: Kernel, code: str) -> bool:
    codes = {kernel.variant or "": code}
    return find_problem(kernel.source.suite, kernel.benchmark, codes, kernel.span.path) is not None
