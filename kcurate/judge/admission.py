"""What a candidate must pass before any of it runs: its problem and plans, its code's text, its binaries.

The one caller of `checks.static` on the way to a verdict. A header off the list ends as `compile_error`
(for a side there is no such header), everything else that the checks refuse as `static_reject`. Not covered:
the rules (`checks.static`), compiling (`kcurate.judge.workers.compiling`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from kcurate.backends.base import Compiled
from kcurate.judge.case import Case, Ruling
from kcurate.judge.checks import static
from kcurate.judge.checks.repeated_launches import redone
from kcurate.judge.checks.static import Finding
from kcurate.problem import check, program
from kcurate.records import SIDES, Outcome
from kcurate.records.pair import SideName

# The check whose findings are what a compiler without those headers would say.
HEADERS = "headers"


def admit_plans(case: Case, *, torch: bool = False) -> None:
    """Whether there is anything to run, and both plans can be; sides in PyTorch where `torch` allows them.

    Raises:
        Ruling: `malformed`, with every issue in the log; `harness_error` for PyTorch that may not run: it
        says nothing of the candidate, which is judged again once it may.
    """
    candidate = case.candidate
    for side in SIDES:
        if getattr(candidate, side).language == "torch" and not torch:
            text = "a side in PyTorch runs as trusted code, which was not allowed (--trust-python)"
            raise Ruling(Outcome.HARNESS_ERROR, text, side=side)
    if candidate.problem is None:
        raise Ruling(Outcome.MALFORMED, "no problem yet: nothing says what to run it on")
    issues = check.check(candidate)
    if issues:
        more = f" (and {len(issues) - 1} more)" if len(issues) > 1 else ""
        raise Ruling(Outcome.MALFORMED, f"{issues[0]}{more}", log="\n".join(map(str, issues)))
    case.passed("plan")


def admit_sources(case: Case) -> None:
    """Whether both sides' texts may be given to a compiler.

    Raises:
        Ruling: `static_reject` or, for headers alone, `compile_error`; every finding is in the log.
    """
    problem = case.candidate.problem
    assert problem is not None, "plans are admitted first"
    for side in SIDES:
        record = getattr(case.candidate, side)
        if record.language == "torch":
            continue
        _refuse(side, static.check_source(record))
        _refuse(side, tuple(redone(program.bind(problem, record, problem.sizes.test[0]), record.code)))
    case.passed(*static.ALL_CHECKS, "redone")


def admit_binaries(case: Case, compiled: Mapping[SideName, Compiled]) -> None:
    """Whether both sides' binaries may be loaded.

    Raises:
        Ruling: `static_reject`.
    """
    for side in SIDES:
        _refuse(side, static.check_binary(compiled[side], getattr(case.candidate, side)))
    case.passed("binary")


def _refuse(side: SideName, findings: Sequence[Finding]) -> None:
    if not findings:
        return
    only_headers = all(finding.check == HEADERS for finding in findings)
    outcome = Outcome.COMPILE_ERROR if only_headers else Outcome.STATIC_REJECT
    more = f" (and {len(findings) - 1} more)" if len(findings) > 1 else ""
    raise Ruling(outcome, f"{findings[0]}{more}", side=side, log="\n".join(map(str, findings)))
