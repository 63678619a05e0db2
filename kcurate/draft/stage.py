"""The stage: kernels in, a draft file beside each, admitted or not, with counts.

`problem.toml` is written beside `kernel.json`; an admitted draft also becomes `problem.json`, a known problem
that deopt uses. Not covered: making a draft (`infer`), trying it (`admit`), files completed by people
(`checking`).
"""

from __future__ import annotations

import contextlib
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

from kcurate import progress, store
from kcurate.config import DEFAULT_WORKSPACE
from kcurate.cuda_source.demangled import Demangled
from kcurate.draft import admit, form, infer, pairing, reached, reading, reporting, tree
from kcurate.draft.captures import Captures
from kcurate.draft.checking import RECORD_NAME, AdmittingJudge, faults
from kcurate.draft.counterpart import FORM_NAME as FORM_NAME
from kcurate.draft.explained import Trust
from kcurate.draft.proposing import Proposing, reads_files
from kcurate.draft.recorded import recorded as of_capture
from kcurate.draft.sketch import Draft, Reason
from kcurate.draft.triton import of_triton
from kcurate.errors import BackendError, InputError, MissingDependencyError, ProblemError
from kcurate.models.naming import parse_model
from kcurate.models.opening import Spending, open_asking
from kcurate.notes import Note, silent
from kcurate.records import Kernel, KnownProblem, Outcome, Summary
from kcurate.runs import recorded
from kcurate.suites.problems import find_problem, is_of, tied
from kcurate.workspace import Workspace

NO_HOST_CODE = "no host code found"
COMPLETED = "# Open places were filled in by a program; admitted."
# Takes a draft's text and the kernel's code; returns the text with open places filled in, or None.
Complete = Callable[[str, str], str | None]


@dataclass(frozen=True)
class DraftConfig:
    """What to draft. `kernels` are folders, records or ids; empty: the whole workspace.

    `trees`: where the sources are (empty: where extract found them). `known`: also draft kernels that have a
    problem. `again`: also redraft kernels that have a file. `model`: whom to ask for what stays open, also in
    files that exist already (None: nobody). `gpu`: one for drafts that the emulator cannot decide.
    """

    workspace: Path = DEFAULT_WORKSPACE
    kernels: tuple[str, ...] = ()
    trees: tuple[Path, ...] = ()
    known: bool = False
    again: bool = False
    model: str | None = None
    spending: Spending = field(default_factory=Spending)
    gpu: str = "auto"


def draft(
    config: DraftConfig,
    *,
    note: Note = silent,
    complete: Complete | None = None,
    report: Callable[[Summary], None] = lambda _: None,
) -> Summary:
    """Draft a problem for every kernel that has none, try it, and write `problem.toml` beside the kernel.

    `report` receives the summary before anything is raised about single kernels or requests. Natural pairs of
    these kernels that have no problem get one if both sides solve it alike.

    Raises:
        InputError: a path is no kernel, a record cannot be read, a tree does not exist, a kernel named by the
            user is never launched, or the model cannot be asked within a budget.
        MissingDependencyError: a package or key for the model is missing, or the GPU that is named.
        BudgetSpentError, RemoteError: the model was not asked about every kernel; all answers are saved.
    """
    with recorded("problem draft", config.workspace, note=note) as record, contextlib.ExitStack() as stack:
        workspace = Workspace(config.workspace)
        asked = _asked(config, workspace, stack, record.note)
        complete = asked or complete
        places = tree.roots(config.trees, workspace)
        paths = list(_records(config.kernels, workspace))
        counts: defaultdict[str, Counter[str]] = defaultdict(Counter)
        failed: list[Exception] = []
        unlaunched, seen = list[str](), list[str]()
        record.begin(config)
        with contextlib.closing(AdmittingJudge.on(config.gpu)) as judge:
            captures = Captures(workspace, record.note)
            for path in progress.each(paths, "problem draft", unit="kernel"):
                name = str(path)
                try:
                    kernel = store.read_json(path, Kernel)
                    name = kernel.id
                    outcome, why, line = _one(path, kernel, config, places, judge, complete, captures)
                except Exception as error:  # noqa: BLE001 - raised after the summary of all
                    outcome, why, line = _broken(error, failed)
                counts["kernels"][outcome] += 1
                if why:
                    counts[outcome][why] += 1
                if why == Reason.NO_LAUNCH_SITE:
                    unlaunched.append(name)
                seen.append(name)
                reporting.add_kernel(record, path, name, outcome, line)
            pairs = pairing.complete_pairs(workspace, seen, judge, note=record.note)
            counts["pairs"].update(reporting.add_pairs(record, pairs))
        if asked is not None:
            counts["requests"] = Counter({str(kind): n for kind, n in asked.asking.counts.items()})
            record.note(asked.asking.spent())
        found = {kind: dict(sorted(inside.items())) for kind, inside in counts.items() if inside}
        summary = record.finish(found)
        report(summary)
        if asked is not None and asked.failure is not None:
            failed.append(asked.failure)
        if failed:
            raise failed[0]
        if config.kernels and unlaunched:
            raise _never_launched(unlaunched)
        return summary


def _never_launched(kernels: Sequence[str]) -> InputError:
    hint = f"run it: kcurate capture -- ./program; or fill in the plan in its {FORM_NAME}, or name --tree"
    return InputError("no launch of this kernel was found", where=", ".join(kernels), hint=hint)


def _asked(
    config: DraftConfig, workspace: Workspace, stack: contextlib.ExitStack, note: Note
) -> Proposing | None:
    """What asks the model, if there is one."""
    if config.model is None:
        return None
    asked = Proposing(
        open_asking(parse_model(config.model), workspace.transcripts, config.spending, note=note)
    )
    stack.callback(asked.asking.client.close)
    return asked


def _records(kernels: Sequence[str], workspace: Workspace) -> Iterator[Path]:
    """Every selected `kernel.json`, sorted, without duplicates."""
    if not kernels:
        found = sorted(workspace.kernels.rglob("kernel.json"))
        if not found:
            raise InputError(
                "no kernels", where=str(workspace.kernels), hint="run kcurate extract TREE first"
            )
        yield from found
        return
    seen: set[Path] = set()
    for name in kernels:
        inside = workspace.kernels / name
        path = Path(name) if Path(name).exists() else inside
        if not path.exists():
            raise InputError(
                "no such kernel or folder", where=name, hint=f"ids are paths below {workspace.kernels}"
            )
        folder = path.parent if path.is_file() else path
        records = sorted(folder.rglob("kernel.json"))
        if not records:
            raise InputError("no kernel here", where=name, hint="run kcurate extract TREE first")
        yield from (record for record in records if record not in seen)
        seen |= set(records)


def _broken(error: Exception, failed: list[Exception]) -> tuple[str, str, str]:
    """The outcome of a kernel on which drafting breaks down; the error goes to `failed`."""
    if isinstance(error, ProblemError):
        return "refused", str(Outcome.MALFORMED), error.what
    if isinstance(error, (MissingDependencyError, BackendError)):
        raise error
    failed.append(error)
    return "failed", "", f"{type(error).__name__}: {error}"


def _one(
    record: Path,
    kernel: Kernel,
    config: DraftConfig,
    places: Sequence[Path],
    judge: AdmittingJudge,
    complete: Complete | None,
    captures: Captures,
) -> tuple[str, str, str]:
    """Draft one kernel: its outcome, the reason if any, and a message."""
    code = store.read_kernel_code(record.parent)
    path = record.parent / FORM_NAME
    if not config.known and _has_problem(kernel, code):
        return "known", "", "its suite has a problem for it"
    if path.exists() and not config.again:
        kept = _kept(path, code)
        if complete is None or kept[0] != "kept" or (record.parent / RECORD_NAME).exists():
            return kept
        return _completed(path, kernel, code, judge, complete) or kept
    (record.parent / RECORD_NAME).unlink(missing_ok=True)
    if kernel.language == "triton":
        capture = captures.of_triton(kernel)
        if capture is None:
            return "open", str(Reason.NO_LAUNCH_SITE), "no launch was recorded: run kcurate capture"
        triton = partial(of_triton, kernel, code, capture, judge.most_elements)
        return _first_admitted(triton, None, kernel, record, code, judge, complete)
    units = tree.hosts(kernel, places)
    capture = captures.of(kernel, code)
    if capture is not None and not kernel.instantiations and Demangled.of(capture.kernel).template:
        template = ", ".join(Demangled.of(capture.kernel).template)
        kernel = replace(kernel, instantiations=(f"{kernel.name}<{template}>",))
    text = infer.draft(kernel, code, units)
    measured = partial(reached.measured, text, code, judge.reach)
    if capture is not None:
        cuda = partial(of_capture, kernel, code, capture, text, most_elements=judge.most_elements)
        return _first_admitted(cuda, measured, kernel, record, code, judge, complete)
    more = () if units else (f"{NO_HOST_CODE}: sizes and values are made up; name the sources with --tree",)
    outcome, why, line = _settled(measured(), record, kernel, code, more, judge, complete)
    return outcome, why, line if units else f"{line}; {NO_HOST_CODE}"


def _first_admitted(
    recorded_: Callable[[Trust], Draft],
    text: Callable[[], Draft] | None,
    kernel: Kernel,
    record: Path,
    code: str,
    judge: AdmittingJudge,
    complete: Complete | None,
) -> tuple[str, str, str]:
    """Try what a running program did, then what the text says, then the recorded size alone."""
    sources: tuple[tuple[Callable[[], Draft], str], ...] = (
        (partial(recorded_, "apart"), "recorded"),
        (partial(recorded_, "joined"), "recorded, equal sizes taken as one"),
        *([(text, "read off the text")] if text is not None else []),
        (partial(recorded_, "fixed"), "recorded, its one size"),
    )
    settled = ("", "", "")
    tried: list[KnownProblem] = []
    path = record.parent / FORM_NAME
    for make, source in sources:
        made = make()
        early = made.known.problem.single_size and source is not sources[-1][1]
        if made.known in tried or early or (made.reasons and settled[0]):
            continue
        tried.append(made.known)
        before = path.read_bytes() if settled[0] else None
        outcome, why, line = _settled(made, record, kernel, code, (f"Source: {source}.",), judge, None)
        if outcome in ("admitted", reporting.SINGLE_SIZE):
            return outcome, source, f"{line} ({source})"
        # The first source counts; but a recorded launch that is refused says more than an open text.
        if before is not None and (settled[0] != "open" or source is not sources[-1][1]):
            store.write_bytes(path, before)
        else:
            settled = outcome, why, f"{line} ({source})"
    done = _completed(path, kernel, code, judge, complete) if complete else None
    return done or settled


def _kept(path: Path, code: str) -> tuple[str, str, str]:
    """Keep an existing file; a record that was admitted for different code is removed."""
    record = path.with_name(RECORD_NAME)
    if record.exists():
        current = is_of(store.read_json(record, KnownProblem), code)
    else:
        current = reading.read(path).code_id in (None, store.content_id(code))
    if current:
        return "kept", "", f"{path} exists (--again redrafts it)"
    record.unlink(missing_ok=True)
    return "outdated", "", f"{path} was made for other code (problem check tries it, --again redrafts it)"


def _settled(
    made: Draft,
    record: Path,
    kernel: Kernel,
    code: str,
    more: Sequence[str],
    judge: AdmittingJudge,
    complete: Complete | None,
) -> tuple[str, str, str]:
    """Write a draft, and try it first if nothing is open; `more` are additional heading lines."""
    path = record.parent / FORM_NAME
    if made.reasons:
        _write(path, made, [*_open_heading(made), *more])
        done = _completed(path, kernel, code, judge, complete) if complete else None
        if done is not None:
            return done
        return "open", made.reasons[0], f"open: {', '.join(made.reasons)}: {path}"
    result = admit.admit(made, code, judge, made.ladder)
    _write(path, result.draft, [*result.heading(), *more])
    if result.admitted:
        store.write_json(record.parent / RECORD_NAME, result.draft.known)
        outcome = reporting.SINGLE_SIZE if result.draft.known.problem.single_size else "admitted"
        return outcome, "", f"admitted at sizes {result.sizes}"
    done = _completed(path, kernel, code, judge, complete) if complete else None
    if done is not None:
        return done
    return "refused", str(result.verdict.outcome), f"{result.verdict.outcome}: {result.verdict.detail}"


def _completed(
    path: Path, kernel: Kernel, code: str, judge: AdmittingJudge, complete: Complete
) -> tuple[str, str, str] | None:
    """A draft completed by `complete`, if it is admitted; it decides nothing about where it belongs."""
    before = reading.read(path)
    text = complete(before.text, code)
    if text is None:
        return None
    admitted = False
    try:
        store.write_bytes(path, f"{COMPLETED}\n{text}".encode("utf-8", "replace"))
        found = reading.read(path)
        admitted = (
            found.known is not None
            and not found.faults
            and found.kernel == before.kernel
            and not reads_files(found.known)
            and not faults(found, code, judge)
        )
    finally:
        if not admitted:  # also if interrupted halfway: the form keeps its marks
            store.write_bytes(path, before.text.encode())
    if not admitted or found.known is None:
        return None
    (side,) = found.known.sides.values()
    known = KnownProblem(
        kernel.source.suite,
        kernel.benchmark,
        found.known.problem,
        {kernel.variant or "": side},
        (kernel.span.path,),
    )
    store.write_json(path.with_name(RECORD_NAME), tied(known, code))
    return "completed", "", "completed and admitted"


def _has_problem(kernel: Kernel, code: str) -> bool:
    codes = {kernel.variant or "": code}
    return find_problem(kernel.source.suite, kernel.benchmark, codes, kernel.span.path) is not None


def _write(path: Path, made: Draft, heading: Sequence[str]) -> None:
    store.write_bytes(path, form.render(made, heading).encode())


def _open_heading(made: Draft) -> list[str]:
    return [
        f"Draft problem of {made.kernel}. Lines with a trailing `?` comment are open:",
        "fill them in and delete the comment; `# guess` marks values that were made up.",
        f"Then: kcurate problem check {FORM_NAME}",
    ]
