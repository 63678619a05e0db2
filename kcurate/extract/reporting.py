"""Outcomes of files, kernels and pairs: counts for the summary, and one line each on disk."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from enum import StrEnum
from itertools import repeat
from typing import Any

from kcurate.core import codec, store
from kcurate.core.json_text import shown
from kcurate.core.runs import Run
from kcurate.extract.merge import TreeKernels
from kcurate.extract.pairs import Match, PairOutcome
from kcurate.extract.sources import TreeFiles
from kcurate.extract.walk import FileOutcome
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
)
UTF_16_HINT = "text in UTF-16 is not read: iconv -f UTF-16 -t UTF-8"
# A kernel whose files contradict `--licence`, or restrict use.
REFUSED = "refused"
# So many includes that were not found are named with a kernel that does not compile.
MAX_NAMES = 4


class KernelOutcome(StrEnum):
    """Outcome of a kernel."""

    COMPILED = "compiled"
    COMPILE_ERROR = "compile_error"
    NOT_COMPILED = "not_compiled"
    UNREAD = "unread"


def file_outcomes(
    files: TreeFiles, tree: TreeKernels, min_device_fraction: float | None
) -> dict[str, FileOutcome]:
    """The outcome of every file found by the walk, by path; None: the threshold of the suite's manifest."""
    least = min_device_fraction
    if least is None:
        least = files.tree.manifest.min_device_fraction
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


def _kernel_outcomes(tree: TreeKernels) -> Iterator[str]:
    yield from map(_kernel_outcome, tree.kernels)
    yield from repeat(KernelOutcome.UNREAD, sum(tree.unread.values()))
    yield from (kernel.outcome for lost in tree.lost.values() for kernel in lost)


def count_items(
    trees: Sequence[TreeKernels],
    outcomes: Sequence[Mapping[str, FileOutcome]],
    matches: Sequence[Sequence[Match]],
) -> dict[str, dict[str, int]]:
    """Counts per outcome; `same_named_files` counts the pairs under a layout's first rule."""
    same_named: Counter[PairOutcome] = Counter()
    for tree, matched in zip(trees, matches, strict=True):
        first = next(iter(tree.tree.manifest.layout.pairs), None)
        same_named.update(m.outcome for m in matched if m.by == "file" and m.rule == first)
    items = {
        "files": _counted(outcome for each in outcomes for outcome in each.values()),
        "kernels": _counted(outcome for tree in trees for outcome in _kernel_outcomes(tree)),
        "pairs": _counted(match.outcome for each in matches for match in each),
    }
    asked, unevaluated = sum(t.conditions for t in trees), sum(len(t.unevaluated) for t in trees)
    items["conditions"] = {"evaluated": asked - unevaluated, "unevaluated": unevaluated}
    for name, counts in (
        ("__global__", [tree.marks for tree in trees]),
        ("@triton.jit", [t.jit for t in trees]),
    ):
        if total := sum(map(Counter, counts), Counter[str]()):  # without zeros
            items[name] = dict(sorted(total.items()))
    if same_named:
        items["same_named_files"] = _counted(same_named.elements())
    items["licences"] = _counted(_licence(kernel) for tree in trees for kernel in tree.kernels)
    return items


def marks_line(trees: Sequence[TreeKernels]) -> str | None:
    """One line that holds the count of `__global__` by outcome to that of the text; None: there is none."""
    marks = sum((Counter(tree.marks) for tree in trees), Counter[str]())
    in_text, counted = sum(tree.marks_in_text for tree in trees), marks.total()
    if not in_text:
        return None
    by_outcome = ", ".join(f"{count} {outcome.replace('_', ' ')}" for outcome, count in marks.most_common())
    agree = "all accounted for" if counted == in_text else f"{counted} accounted for"
    return f"{in_text} __global__ in the text, {agree}: {by_outcome}"


def _counted(outcomes: Iterable[str]) -> dict[str, int]:
    counts = Counter(str(outcome) for outcome in outcomes)
    return dict(sorted(counts.items()))


def add_results(
    record: Run,
    trees: Sequence[TreeKernels],
    outcomes: Sequence[Mapping[str, FileOutcome]],
    matches: Sequence[Sequence[Match]],
) -> None:
    """Add every kernel, pair, and file from which something was expected; `files.jsonl` has all files."""
    listed = record.folder / "files.jsonl"
    for tree, by_path, matched in zip(trees, outcomes, matches, strict=True):
        for path, outcome in sorted(by_path.items()):
            reason = tree.reasons.get(path)
            if outcome in LOST or (reason is not None and reason.hint is not None):
                plain = UTF_16_HINT if outcome is FileOutcome.UTF_16 else f"{outcome}".replace("_", " ")
                why = reason.line(shown(path)) if reason else plain
                record.item("files", shown(path), outcome, why, passed=False, file=listed)
        for path, lost in sorted(tree.lost.items()):
            for lost_kernel in lost:
                where = f"{shown(path)}:{lost_kernel.line} {lost_kernel.name}"
                record.item("kernels", where, lost_kernel.outcome, lost_kernel.why, passed=False, file=listed)
        for kernel in tree.kernels:
            compiled = _kernel_outcome(kernel)
            failed = compiled is KernelOutcome.COMPILE_ERROR
            log = first_error((kernel.compiled.log if failed and kernel.compiled else "") or "")
            if failed and (absent := tree.not_found.get(kernel.root)):
                log += f"; include not found: {', '.join(map(shown, absent[:MAX_NAMES]))}"
            file = record.workspace / "kernels" / kernel.id / "kernel.json"
            record.item(
                "kernels",
                kernel.id,
                compiled,
                log,
                passed=not failed,
                file=file,
                then=("show", kernel.id),
            )
            if kernel.rights and kernel.rights.refused:
                record.item("licences", kernel.id, REFUSED, kernel.rights.refused, passed=False, file=file)
        for match in matched:
            passed = match.outcome is PairOutcome.PAIR
            why = "" if passed else f"{match.outcome}".replace("_", " ")
            name = f"{tree.tree.suite}/{match.benchmark}/{match.name}"
            record.item("pairs", name, match.outcome, why, passed=passed, file=record.folder / "pairs.jsonl")


def first_error(log: str) -> str:
    """The first line of a compiler's log that names an error."""
    lines = [line.strip() for line in log.splitlines() if line.strip()]
    return next((line for line in lines if "error" in line), lines[0] if lines else "")


def write_reports(
    log: Run,
    trees: Sequence[TreeKernels],
    outcomes: Sequence[Mapping[str, FileOutcome]],
    matches: Sequence[Sequence[Match]],
) -> None:
    """Write one JSON line per file, pair and unevaluated condition to the run's folder."""
    files, pairs, conditions = [], [], []
    for tree, by_path, matched in zip(trees, outcomes, matches, strict=True):
        for path, outcome in sorted(by_path.items()):
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
            files.append(line)
        for root, condition in tree.unevaluated:
            line = {"suite": tree.tree.suite, "unit": shown(root), **codec.to_data(condition)}
            conditions.append(line)
        for match in matched:
            sides = {"slow": match.slow and match.slow.path, "fast": match.fast and match.fast.path}
            pairs.append(
                {
                    "suite": tree.tree.suite,
                    "benchmark": match.benchmark,
                    "name": match.name,
                    "by": match.by,
                    **sides,
                    "outcome": str(match.outcome),
                }
            )
    for name, lines in (("files", files), ("pairs", pairs), ("conditions", conditions)):
        data = b"".join(codec.canonical_json(line) + b"\n" for line in lines)
        store.write_bytes(log.folder / f"{name}.jsonl", data)
