"""Every extracted kernel with a known problem, judged against itself on the emulator.

`python -m tests.suites.admission WORKSPACE [FOLDER...]` after `kcurate extract TREE -w WORKSPACE`, the
folders below `WORKSPACE/kernels`. Suites are read from the user's own copies, so this is no test of its own.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from kcurate.core.workspace import Workspace
from kcurate.deopt.starts import Start, starts
from kcurate.judge.judging import Judge, JudgeConfig
from kcurate.records import Candidate, Outcome, Verdict


def itself(start: Start) -> Candidate:
    """The kernel as both sides: what fails here is the problem or the plan."""
    return Candidate(
        id=start.id,
        family=start.family,
        domain=start.domain,
        license=start.license,
        origin=start.origin,
        techniques=(),
        description="",
        problem=start.problem,
        slow=start.given,
        fast=start.given,
    )


def admissions(workspace: Workspace, folders: Sequence[Path] = ()) -> Iterator[tuple[str, Verdict | None]]:
    """The verdict of each kernel's problem by the kernel's name; None where no problem is known."""
    with contextlib.closing(Judge(JudgeConfig(backend="emulator", timed=False, sanitize=True))) as judge:
        for start in starts(folders, workspace):
            yield start.id, judge.judge(itself(start)) if start.problem else None


def main(arguments: Sequence[str]) -> int:
    """One line a kernel; 1 when a known problem is refused."""
    workspace = Workspace(Path(arguments[0]))
    refused = 0
    for name, verdict in admissions(workspace, [workspace.kernels / each for each in arguments[1:]]):
        outcome = verdict.outcome if verdict else "no_problem"
        refused += verdict is not None and verdict.outcome is not Outcome.CORRECT
        print(f"{outcome:14} {name}  {verdict.detail if verdict else ''}", flush=True)
    return 1 if refused else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
