"""Checks that a candidate must pass before any of its code runs: of its problem, plans, source and binaries.

This is the only caller of `checks.static` in the judge. A header that is not allowed gives `compile_error`,
every other finding `static_reject`. Not covered: the rules (`checks.static`), compiling
(`kcurate.judge.workers.compiling`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from kcurate.backends.base import Compiled
from kcurate.judge.case import Case, Ruling
from kcurate.judge.checks import static
from kcurate.judge.checks.findings import Finding
from kcurate.judge.checks.repeated_launches import find_aliased_argument, find_repeated_launch
from kcurate.judge.checks.unread import find_unread, find_unread_buffers, most_unread_bytes
from kcurate.problem import check
from kcurate.problem.bind_once import bind_once
from kcurate.records import SIDES, Candidate, Outcome
from kcurate.records.pair import SideName

# The check whose findings give `compile_error`.
HEADERS = "headers"
# The check for padded work; see `padded`.
SHAM = "sham"


def admit_plans(case: Case, *, torch: bool = False) -> None:
    """Check that there is a problem and that both plans fit it. `torch` allows a side in PyTorch.

    Raises:
        Ruling: `no_problem`; `malformed`, with every issue in the log; `unsupported` if a model wrote the
        slow side and a side is in Triton, which cannot be counted; `harness_error` for a PyTorch side
        without `torch`, so that it is judged again once PyTorch is allowed.
    """
    candidate = case.candidate
    for side in SIDES:
        language = getattr(candidate, side).language
        if language == "triton" and made_slow(candidate) and candidate.origin.kind != "rule":
            text = "what a slow side that a model made runs cannot be counted where a side is in Triton"
            raise Ruling(Outcome.UNSUPPORTED, text, side=side)
        if language == "torch" and not torch:
            text = "a PyTorch side runs as trusted code and needs --trust-python"
            raise Ruling(Outcome.HARNESS_ERROR, text, side=side)
    if candidate.problem is None:
        raise Ruling(Outcome.NO_PROBLEM, "the pair has no problem yet, so there are no inputs to run it on")
    issues = check.check(candidate)
    if issues:
        more = f" (and {len(issues) - 1} more)" if len(issues) > 1 else ""
        raise Ruling(Outcome.MALFORMED, f"{issues[0]}{more}", log="\n".join(map(str, issues)))
    case.passed("plan")


def padded(candidate: Candidate) -> SideName | None:
    """The side that may have been slowed down on purpose: the slow one, unless the fast one was made (None).

    In that case the slow side is the code that the author of the fast side started from. Useless work in a
    fast side, such as a product with `0.0f`, harms only its author, so it is not checked.
    """
    return None if candidate.origin.made == "fast" else "slow"


def made_slow(candidate: Candidate) -> bool:
    """Whether a rule or a model wrote the slow side, so it must be shown not to be slow on purpose."""
    return candidate.origin.made == "slow"


def admit_sources(case: Case) -> None:
    """Run the static checks on both sides' source and plans; `sham` only on the side that `padded` returns.

    Raises:
        Ruling: `static_reject`, or `compile_error` if all findings are headers; the log has every finding.
    """
    problem = case.candidate.problem
    assert problem is not None, "plans are admitted first"
    suspect = padded(case.candidate)
    others = tuple(name for name in static.ALL_CHECKS if name != SHAM)
    for side in SIDES:
        record = getattr(case.candidate, side)
        if record.language == "torch":
            continue
        strict, text = side == "slow" and made_slow(case.candidate), record.code
        applied = static.ALL_CHECKS if side == suspect else others
        _refuse(side, static.check_source(record, applied))
        if record.language == "triton":
            case.passed("triton")
            text = ""  # the check cannot tell what Triton launches read
        for sizes in problem.sizes.all if strict else problem.sizes.test[:1]:
            bound = bind_once(problem, record, sizes)
            _refuse(side, (*find_aliased_argument(bound, text), *find_repeated_launch(bound, text)))
        if strict:
            bound = bind_once(problem, record, problem.sizes.headline)
            _refuse(side, tuple(find_unread_buffers(bound)))
    case.passed(*(static.ALL_CHECKS if suspect else others), "redone")


def admit_binaries(case: Case, compiled: Mapping[SideName, Compiled]) -> None:
    """Check both sides' binaries; in a made slow side, also look for buffers and memory that it never reads.

    Raises:
        Ruling: `static_reject`.
    """
    candidate = case.candidate
    for side in SIDES:
        _refuse(side, static.check_binary(compiled[side], getattr(candidate, side)))
    case.passed("binary")
    if made_slow(candidate):
        assert candidate.problem is not None, "plans are admitted first"
        for sizes in candidate.problem.sizes.all:
            slow, fast = (bind_once(candidate.problem, getattr(candidate, side), sizes) for side in SIDES)
            unread_bytes = most_unread_bytes(fast, compiled["fast"])
            _refuse("slow", tuple(find_unread(slow, candidate.slow.code, compiled["slow"], unread_bytes)))
        bound = bind_once(candidate.problem, candidate.slow, candidate.problem.sizes.headline)
        _refuse("slow", tuple(find_unread_buffers(bound, compiled["slow"])))
        if compiled["slow"].unread:
            case.passed("unread")


def _refuse(side: SideName, findings: Sequence[Finding]) -> None:
    if not findings:
        return
    only_headers = all(finding.check == HEADERS for finding in findings)
    outcome = Outcome.COMPILE_ERROR if only_headers else Outcome.STATIC_REJECT
    more = f" (and {len(findings) - 1} more)" if len(findings) > 1 else ""
    raise Ruling(outcome, f"{findings[0]}{more}", side=side, log="\n".join(map(str, findings)))
