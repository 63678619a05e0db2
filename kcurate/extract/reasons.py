"""Why a file that contains `__global__` has no kernel, in one line, and what to do about it.

Not covered: files without the word; kernels that do not compile (the compiler's log is in their record).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from kcurate.cuda_source import UnitReport, blank_comments, blank_literals
from kcurate.extract.walk import FileOutcome

_MARK = re.compile(rb"\b__global__\b")
_DEFINE = re.compile(rb"^[ \t]*#[ \t]*define\b(?:\\\r?\n|[^\n])*", re.MULTILINE)
_DECLARED = re.compile(rb"\b__global__\b[^{};]*;")


@dataclass(frozen=True)
class Reason:
    """The outcome of a file without kernels, the reason, and a hint (None: nothing is lost)."""

    outcome: FileOutcome
    why: str
    hint: str | None = None

    def line(self, path: str) -> str:
        """One line for the user."""
        return f"{path}: {self.why}" + (f" ({self.hint})" if self.hint else "")


@dataclass(frozen=True)
class Lost:
    """A function that could not be extracted: its name and line, the outcome, the reason."""

    name: str
    line: int
    outcome: str
    why: str


def reason(
    path: str,
    data: bytes,
    units: Sequence[UnitReport],
    failed: str | None,
    line_of: Callable[[str, int], int] = lambda path, line: line,
) -> Reason:
    """Why a file has no kernel.

    `units` are the reports of the units that include it; `failed` is the error that ended the others.
    `line_of` converts a line of a part to one of its file.
    """
    failed = next((unit.failed for unit in units if unit.failed), failed)
    if failed:
        why, hint = f"reading it failed: {failed}", "leave it out with --exclude"
        return Reason(FileOutcome.PARSER_FAILED, why, hint)
    hidden = [branch for unit in units for branch in unit.hidden if branch.path == path]
    unevaluated = {(c.path, c.line): c.why for unit in units for c in unit.unevaluated}
    if hidden:
        first = min(hidden, key=lambda branch: branch.line)
        why = f"its kernels lie behind {first.text} (line {line_of(path, first.line)})"
        if cause := unevaluated.get((path, first.line)):
            why += f", which could not be evaluated: {cause}"
        hint = f"define what it asks for: {_asked(first.names)}"
        return Reason(FileOutcome.BEHIND_CONDITION, why, hint)
    if any(unit.unread.get(path) for unit in units):
        why = "its kernels come from macros that could not be expanded"
        return Reason(FileOutcome.UNREAD_KERNEL, why, "write them out")
    return _by_text(data)


def _asked(names: Iterable[str]) -> str:
    return " or ".join(f"-D {name}" for name in names) or "the macros of the branches before it"


def _by_text(data: bytes) -> Reason:
    """The reason that the text alone gives."""
    bare = blank_literals(blank_comments(data))
    if not _MARK.search(bare):
        return Reason(FileOutcome.NO_KERNEL, "__global__ stands only in comments or strings")
    bare = _DEFINE.sub(b" ", bare)
    if not _MARK.search(bare):
        return Reason(FileOutcome.NO_KERNEL, "__global__ stands only in macros")
    if not _MARK.search(_DECLARED.sub(b" ", bare)):
        return Reason(FileOutcome.NO_KERNEL, "kernels are only declared or instantiated here")
    why = "__global__ is not where a kernel was recognised"
    return Reason(FileOutcome.UNREAD_KERNEL, why, "write the kernel out")


def reasons(
    roots: Mapping[str, Sequence[str]],
    results: Mapping[str, UnitReport],
    failed: Mapping[str, str],
    with_kernels: Iterable[str],
    texts: Mapping[str, bytes],
    line_of: Callable[[str, int], int],
) -> dict[str, Reason]:
    """The reason for every file of `roots` without kernels, by path.

    `roots` maps a file to the units it may be read from; `failed` maps a unit to the error for which it has
    no report.
    """
    reasons_by_file = {}
    for path in sorted(roots.keys() - set(with_kernels)):
        units = [results[root] for root in roots[path] if root in results]
        ended = None if units else next((failed[root] for root in roots[path] if root in failed), None)
        reasons_by_file[path] = reason(path, texts.get(path, b""), units, ended, line_of)
    return reasons_by_file
