"""Outcomes of files, kernels and pairs: counts for the summary, and one line for each on disk."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from kcurate.core import codec, store
from kcurate.core.json_text import shown
from kcurate.core.runs import Run
from kcurate.cuda_source import AGREED
from kcurate.cuda_source.standalone.unit import REACHED
from kcurate.extract.merge import TreeKernels
from kcurate.extract.pairs import Match, PairOutcome
from kcurate.extract.sources import TreeFiles
from kcurate.extract.walk import FileOutcome
from kcurate.forms import readers
from kcurate.records import Kernel

# Files that were to be read and could not be.
LOST = (
    FileOutcome.PARSER_FAILED,
    FileOutcome.UNREAD_KERNEL,
    FileOutcome.BEHIND_CONDITION,
    FileOutcome.UNREADABLE,
    FileOutcome.UNREADABLE_FOLDER,
    FileOutcome.TOO_LARGE,
    FileOutcome.BINARY,
    FileOutcome.UTF_16,
    FileOutcome.BROKEN_LINK,
    FileOutcome.READER_FAILED,
    FileOutcome.NAME_TWICE,
    FileOutcome.BAD_PATH,
)
UTF_16_HINT = "text in UTF-16 is not read: iconv -f UTF-16 -t UTF-8"
# A kernel whose files contradict `--licence`, or restrict use.
REFUSED = "refused"
# Missing includes named with a kernel that does not compile.
MAX_NAMES = 4

# Files without kernels named on stderr; reasons given if there is no kernel at all.
MAX_LINES, MAX_REASONS = 20, 3
# Items listed in a summary; the run's folder has a line for each.
MAX_ITEMS = 100_000
REPORTS = "files", "pairs", "conditions"
# Written only where two readers disagree.
SECOND = "second_reader"
FILES, PAIRS, KERNEL = "files.jsonl", "pairs.jsonl", "kernel.json"
_RARE = frozenset({"__global__", "@triton.jit", "same_named_files", SECOND})


@dataclass(frozen=True)
class Entry:
    """An item of the summary (`Run.item`); `file` names a report of the run, or the kernel's record."""

    kind: str
    name: str
    outcome: str
    why: str
    passed: bool
    file: str
    then: tuple[str, ...] = ()


@dataclass(frozen=True)
class PartReport:
    """What became of the files, kernels and pairs of one part of a tree.

    `lines` is the text for each report of the run. `reasons` are (why a file has no kernel, whether something
    is lost). `refused` counts refused kernels by reason. `readers` are the errors of file readers.
    `marks_in_text` counts `__global__`.
    """

    counts: Mapping[str, Mapping[str, int]]
    items: tuple[Entry, ...] = ()
    lines: Mapping[str, str] = field(default_factory=dict)
    reasons: tuple[tuple[str, bool], ...] = ()
    refused: Mapping[str, int] = field(default_factory=dict)
    readers: tuple[str, ...] = ()
    marks_in_text: int = 0

    def plus(self, other: PartReport) -> PartReport:
        """The sum of two reports."""
        counts, lines = {**self.counts, **other.counts}, {**self.lines, **other.lines}
        return PartReport(
            {name: Counter(self.counts.get(name)) + Counter(other.counts.get(name)) for name in counts},
            self.items + other.items,
            {name: self.lines.get(name, "") + other.lines.get(name, "") for name in lines},
            self.reasons + other.reasons,
            Counter(self.refused) + Counter(other.refused),
            self.readers + other.readers,
            self.marks_in_text + other.marks_in_text,
        )


class KernelOutcome(StrEnum):
    """Outcome of a kernel."""

    COMPILED = "compiled"
    COMPILE_ERROR = "compile_error"
    NOT_COMPILED = "not_compiled"
    UNREAD = "unread"


def file_outcomes(
    files: TreeFiles, tree: TreeKernels, min_device_fraction: float | None
) -> dict[str, FileOutcome]:
    """The outcome of each file found by the walk, by path; no `min_device_fraction`: the suite's."""
    least = (
        min_device_fraction if min_device_fraction is not None else files.tree.manifest.min_device_fraction
    )
    with_kernels = {kernel.span.path for kernel in tree.kernels}
    result = {}
    for file in files.found:
        outcome = file.outcome or FileOutcome.NO_KERNEL
        if shown(file.path) in with_kernels:
            below = tree.device_fractions.get(file.path, 1.0) < least
            outcome = FileOutcome.BELOW_DEVICE_FRACTION if below else FileOutcome.EXTRACTED
        elif file.path in tree.reasons:
            outcome = tree.reasons[file.path].outcome
        result[file.path] = outcome
    return result


def _kernel_outcome(kernel: Kernel) -> KernelOutcome:
    if kernel.compiled is None:
        return KernelOutcome.NOT_COMPILED
    return KernelOutcome.COMPILED if kernel.compiled.ok else KernelOutcome.COMPILE_ERROR


def _licence(kernel: Kernel) -> str:
    if kernel.rights and kernel.rights.refused:
        return REFUSED
    return kernel.license or "unknown"


def _counts(
    tree: TreeKernels, outcomes: Mapping[str, FileOutcome], matches: Sequence[Match]
) -> dict[str, dict[str, int]]:
    """Counts per outcome; `same_named_files` counts the pairs under the layout's first rule."""
    first = next(iter(tree.tree.manifest.layout.pairs), None)
    unevaluated = len(tree.unevaluated)
    kernels = [*map(_kernel_outcome, tree.kernels), *[KernelOutcome.UNREAD] * sum(tree.unread.values())]
    lost = (kernel.outcome for kernels_lost in tree.lost.values() for kernel in kernels_lost)
    symbols = ["symbols_taken" for kernel in tree.kernels if REACHED in kernel.shims]
    return {
        "files": _counted(outcomes.values()),
        "kernels": _counted([*kernels, *lost]),
        "pairs": _counted(match.outcome for match in matches),
        "conditions": {"evaluated": tree.conditions - unevaluated, "unevaluated": unevaluated},
        "__global__": _counted(Counter(tree.marks).elements()),
        "@triton.jit": _counted(Counter(tree.jit).elements()),
        "same_named_files": _counted(m.outcome for m in matches if m.by == "file" and m.rule == first),
        "licences": _counted(map(_licence, tree.kernels)),
        SECOND: _counted([*(finding.seen for finding in tree.second), *symbols]),
    }


def _counted(outcomes: Iterable[str]) -> dict[str, int]:
    counts = Counter(str(outcome) for outcome in outcomes)
    return dict(sorted(counts.items()))


def part_report(
    files: TreeFiles, tree: TreeKernels, matches: Sequence[Match], least: float | None
) -> PartReport:
    """The report of a part; `least` is the minimum device fraction (None: the suite's threshold)."""
    outcomes = file_outcomes(files, tree, least)
    return PartReport(
        counts=_counts(tree, outcomes, matches),
        items=tuple(_items(tree, outcomes, matches)),
        lines={
            "files": _lines(_file_lines(tree, outcomes)),
            "pairs": _lines(_pair_lines(tree, matches)),
            "conditions": _lines(
                {"suite": tree.tree.suite, "unit": shown(root), **codec.to_data(condition)}
                for root, condition in tree.unevaluated
            ),
            SECOND: _lines(_second_lines(tree)),
        },
        reasons=tuple(
            (reason.line(shown(path)), reason.hint is not None)
            for path, reason in sorted(tree.reasons.items())
        ),
        refused=_counted(
            kernel.rights.refused for kernel in tree.kernels if kernel.rights and kernel.rights.refused
        ),
        readers=tuple(_failed_readers(files)),
        marks_in_text=tree.marks_in_text,
    )


def _failed_readers(files: TreeFiles) -> Iterator[str]:
    """For each file on which a reader failed, a line with the reason."""
    for file in files.found:
        if file.outcome is FileOutcome.READER_FAILED:
            path = files.tree.root / file.path
            try:
                deque(readers.parts(path.name, readers.text_of(path, path.read_bytes())), maxlen=0)
            except (readers.ReaderFailed, OSError) as error:
                yield f"{shown(file.path)}: {error}"


def _items(
    tree: TreeKernels, outcomes: Mapping[str, FileOutcome], matches: Sequence[Match]
) -> Iterator[Entry]:
    """All kernels and pairs, and the files that should have had kernels; `files.jsonl` lists all files."""
    for path, outcome in sorted(outcomes.items()):
        reason = tree.reasons.get(path)
        if outcome in LOST or (reason is not None and reason.hint is not None):
            plain = UTF_16_HINT if outcome is FileOutcome.UTF_16 else f"{outcome}".replace("_", " ")
            why = reason.line(shown(path)) if reason else plain
            yield Entry("files", shown(path), outcome, why, False, FILES)
    for path, lost in sorted(tree.lost.items()):
        for lost_kernel in lost:
            where = f"{shown(path)}:{lost_kernel.line} {lost_kernel.name}"
            yield Entry("kernels", where, lost_kernel.outcome, lost_kernel.why, False, FILES)
    for kernel in tree.kernels:
        compiled = _kernel_outcome(kernel)
        failed = compiled is KernelOutcome.COMPILE_ERROR
        log = first_error((kernel.compiled.log if failed and kernel.compiled else "") or "")
        if failed and (absent := tree.not_found.get(kernel.root)):
            log += f"; include not found: {', '.join(map(shown, absent[:MAX_NAMES]))}"
        yield Entry("kernels", kernel.id, compiled, log, not failed, KERNEL, ("show", kernel.id))
        if kernel.rights and kernel.rights.refused:
            yield Entry("licences", kernel.id, REFUSED, kernel.rights.refused, False, KERNEL)
    for match in matches:
        passed = match.outcome is PairOutcome.PAIR
        why = "" if passed else f"{match.outcome}".replace("_", " ")
        name = f"{tree.tree.suite}/{match.benchmark}/{match.name}"
        yield Entry("pairs", name, match.outcome, why, passed, PAIRS)


def first_error(log: str) -> str:
    """The first line of a compiler's log that names an error."""
    lines = [line.strip() for line in log.splitlines() if line.strip()]
    return next((line for line in lines if "error" in line), lines[0] if lines else "")


def _file_lines(tree: TreeKernels, outcomes: Mapping[str, FileOutcome]) -> Iterator[dict[str, Any]]:
    for path, outcome in sorted(outcomes.items()):
        fraction = tree.device_fractions.get(path)
        line: dict[str, Any] = {"suite": tree.tree.suite, "path": shown(path), "outcome": str(outcome)}
        if fraction is not None:
            line["device_fraction"] = fraction
        if reason := tree.reasons.get(path):
            line["why"] = reason.why
            if reason.hint:
                line["hint"] = reason.hint
        if path in tree.lost:
            line["lost"] = [codec.to_data(kernel) for kernel in tree.lost[path]]
        if path in tree.unread:
            line["unread_kernels"] = tree.unread[path]
        yield line


def _pair_lines(tree: TreeKernels, matches: Sequence[Match]) -> Iterator[dict[str, Any]]:
    for match in matches:
        sides = {"slow": match.slow and match.slow.path, "fast": match.fast and match.fast.path}
        pair = {"benchmark": match.benchmark, "name": match.name, "by": match.by}
        yield {"suite": tree.tree.suite, **pair, **sides, "outcome": str(match.outcome)}


def _second_lines(tree: TreeKernels) -> Iterator[dict[str, Any]]:
    """The findings on which the two readers disagree."""
    for finding in tree.second:
        if finding.seen not in AGREED:
            location = {"suite": tree.tree.suite, "path": finding.path, "line": finding.line}
            yield {**location, "kernel": finding.kernel, "seen": str(finding.seen), "what": finding.what}


def _lines(lines: Iterable[Mapping[str, Any]]) -> str:
    return "".join(codec.canonical_json(line).decode() + "\n" for line in lines)


class Tally:
    """The outcomes so far: counts in memory, a line for each item in the run's folder."""

    def __init__(self, record: Run) -> None:
        self.record = record
        self.counts: dict[str, Counter[str]] = {}
        self.reasons: list[str] = []
        self._listed = 0
        self._hinted: list[str] = []
        self._hints = 0
        self._refused: Counter[str] = Counter()
        self._readers: list[str] = []
        self._marks = 0
        self._waiting: list[PartReport] | None = []

    def begin(self) -> None:
        """Start writing: the run's folder exists now. Reports added earlier are written first."""
        waiting, self._waiting = self._waiting or [], None
        for name in REPORTS:
            store.write_bytes(self.record.folder / f"{name}.jsonl", b"", durable=False)
        for report in waiting:
            self._write(report)

    def add(self, report: PartReport) -> None:
        """Add the report of a part."""
        for name, counts in report.counts.items():
            self.counts.setdefault(name, Counter()).update(counts)
        self.reasons = sorted([*self.reasons, *(line for line, _ in report.reasons)])[:MAX_REASONS]
        hinted = [line for line, hint in report.reasons if hint]
        self._hinted += hinted[: MAX_LINES - len(self._hinted)]
        self._hints += len(hinted)
        self._refused.update(report.refused)
        self._readers += report.readers[: MAX_LINES - len(self._readers)]
        self._marks += report.marks_in_text
        if self._waiting is None:
            self._write(report)
        else:  # few: nothing is written as long as there is no kernel
            self._waiting.append(report)

    def _write(self, report: PartReport) -> None:
        for name, lines in report.lines.items():
            if lines:
                path = self.record.folder / f"{name}.jsonl"
                store.append_line(path, lines.removesuffix("\n"), durable=False)
        for entry in report.items:
            self._listed += 1
            if self._listed <= MAX_ITEMS:
                in_kernel = self.record.workspace / "kernels" / entry.name / "kernel.json"
                file = in_kernel if entry.file == KERNEL else self.record.folder / entry.file
                text = entry.kind, entry.name, entry.outcome, entry.why
                self.record.item(*text, passed=entry.passed, file=file, then=entry.then)

    def nonzero(self) -> dict[str, dict[str, int]]:
        """The counts, without rare kinds that did not occur."""
        items = {name: dict(sorted(counts.items())) for name, counts in self.counts.items()}
        return {name: counts for name, counts in items.items() if counts or name not in _RARE}

    def tell(self, *, pairs: bool) -> None:
        """Note what the user should know; `pairs`: whether pairs were searched for."""
        note, files = self.record.note, self.record.folder / FILES
        if dropped := self.counts["files"][FileOutcome.BELOW_DEVICE_FRACTION]:
            note(f"{dropped} files are below the device fraction; their kernels are kept: {files}")
        for line in self._hinted:
            note(line)
        if self._hints > len(self._hinted):
            note(f"{self._hints - len(self._hinted)} more files gave no kernel: {files}")
        for line in self._readers:
            note(line)
        for why, count in self._refused.most_common(MAX_LINES):
            note(f"{count} kernel{'s' if count > 1 else ''} refused: {why}")
        if len(self._refused) > MAX_LINES:
            note(f"kernels refused for {len(self._refused) - MAX_LINES} more reasons")
        if pairs and self._marks:  # `pairs` is False if the caller asked for named kernels
            note(self._accounted())
        if unread := self.counts["kernels"][KernelOutcome.UNREAD]:
            note(f"{unread} kernels were not extracted (macros define or hide them): {files}")
        if unevaluated := self.counts["conditions"]["unevaluated"]:
            skipped = f"{unevaluated} conditions could not be evaluated, their branches are left out"
            note(f"{skipped}: {self.record.folder / 'conditions.jsonl'}")
        second = {seen: count for seen, count in self.counts.get(SECOND, {}).items() if seen not in AGREED}
        if second:
            listed = ", ".join(f"{count} {seen.replace('_', ' ')}" for seen, count in sorted(second.items()))
            note(f"libclang reads some code in another way ({listed}): {files.with_name(f'{SECOND}.jsonl')}")
        if self._listed > MAX_ITEMS:
            note(f"the summary lists {MAX_ITEMS} of {self._listed} kernels, files and pairs: {files}")

    def _accounted(self) -> str:
        """A line that compares the number of `__global__` by outcome with that in the text."""
        marks = self.counts["__global__"]
        by_outcome = ", ".join(
            f"{count} {outcome.replace('_', ' ')}" for outcome, count in marks.most_common()
        )
        agree = "all accounted for" if marks.total() == self._marks else f"{marks.total()} accounted for"
        return f"{self._marks} __global__ in the text, {agree}: {by_outcome}"
