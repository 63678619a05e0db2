"""What a side may not contain: decided from its text before it is compiled, and from its binary after.

A check is a name in `SOURCE_CHECKS`, `PLAN_CHECKS` or `BINARY_CHECKS`; asking for another is an error. They
keep hostile code from the compiler's host, from clocks and from state that outlives a run; whether results
are right is for the runs to tell. Not covered: each rule (`checks.spelling`, `checks.source`,
`checks.assembly`, `checks.pointers`, `checks.global_state`, `checks.padded_work`, `checks.binary`), which
outcome a finding means (`admission`), the walls around processes (`workers.inside.isolation`).
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence

from kcurate.backends.base import Compiled
from kcurate.errors import InputError, ProblemError
from kcurate.headers import SLEEPING
from kcurate.judge.checks import assembly, binary, padded_work, pointers, spelling
from kcurate.judge.checks import source as source_checks
from kcurate.judge.checks.findings import Finding
from kcurate.judge.checks.global_state import static_variables
from kcurate.judge.checks.lexer import Source
from kcurate.problem.expressions import names_in
from kcurate.records import (
    BindTexture,
    Expr,
    Fill,
    Launch,
    Side,
    Upload,
    ValueArg,
    steps,
)

__all__ = ["ALL_CHECKS", "Finding", "check_binary", "check_source", "hints"]

# A plan that names this many single values is a table of answers, not a way to compute.
MAX_PLAN_CONSTANTS = 64
# More of one kind tell nobody anything.
MAX_FINDINGS = 20

SourceCheck = Callable[[Source], Iterator[Finding]]
PlanCheck = Callable[[Source, Side], Iterator[Finding]]


def literal_plan(source: Source, side: Side) -> Iterator[Finding]:
    """Plans that hold answers: more than `MAX_PLAN_CONSTANTS` different numbers filled or passed."""
    values: set[str] = set()
    for step in steps(side.plan):
        written: tuple[Expr | float, ...] = ()
        if isinstance(step, Fill):
            written = (step.value,)
        elif isinstance(step, Launch):
            written = tuple(argument.value for argument in step.args if isinstance(argument, ValueArg))
        values |= {str(value) for value in written if _is_literal(value)}
    if len(values) > MAX_PLAN_CONSTANTS:
        yield Finding("literal_plan", f"{len(values)} values written into the plan")


def _is_literal(value: Expr | float) -> bool:
    """Whether a value depends on no size; text that cannot be read is for `kcurate.problem.check`."""
    try:
        return isinstance(value, float) or not names_in(value)
    except ProblemError:
        return False


def state(source: Source, side: Side) -> Iterator[Finding]:
    """Variables that change and outlive a launch, but for those that the plan itself writes."""
    written = _written_by_plan(side)
    for variable in static_variables(source.plain):
        if not variable.constant and variable.name not in written:
            yield Finding("state", f"the variable {variable.name!r} outlives a launch", variable.line)


def nondeterminism(source: Source, side: Side) -> Iterator[Finding]:
    """Rounding may differ from run to run only where the code has atomics."""
    if side.nondeterministic and not any(
        token.text.startswith(("atomic", "__fAtomic", "__dAtomic"))
        or "red." in token.text
        or "atom." in token.text
        for stream in source.streams
        for token in stream
    ):
        names = ", ".join(side.nondeterministic)
        yield Finding("nondeterminism", f"{names} may not differ from run to run: the code has no atomics")


SOURCE_CHECKS: Mapping[str, SourceCheck] = {
    "size": spelling.size,
    "characters": spelling.characters,
    "directives": spelling.directives,
    "headers": spelling.headers,
    "pasting": spelling.pasting,
    "calls": source_checks.calls,
    "host": source_checks.host,
    "assembly": assembly.assembly,
    "int_as_ptr": pointers.int_as_ptr,
    "sham": padded_work.sham,
}
PLAN_CHECKS: Mapping[str, PlanCheck] = {
    "literal_plan": literal_plan,
    "state": state,
    "nondeterminism": nondeterminism,
}
BINARY_CHECKS: tuple[str, ...] = ("state", "sections", "runtime_calls", "instructions")
ALL_CHECKS: tuple[str, ...] = (*SOURCE_CHECKS, *PLAN_CHECKS)


def check_source(side: Side, checks: Sequence[str] = ALL_CHECKS) -> tuple[Finding, ...]:
    """What the named checks refuse in a side's code and plan, in the order of the names; `size` comes first.

    Raises:
        InputError: there is no check of that name.
    """
    unknown = [name for name in checks if name not in ALL_CHECKS]
    if unknown:
        raise InputError(f"there is no check {unknown[0]!r}", hint=f"one of {', '.join(ALL_CHECKS)}")
    source = Source(side.code)
    found: list[Finding] = list(spelling.size(source))
    if found:
        return tuple(found)
    for name in checks:
        more = SOURCE_CHECKS[name](source) if name in SOURCE_CHECKS else PLAN_CHECKS[name](source, side)
        found += itertools.islice(more, MAX_FINDINGS)
    return tuple(dict.fromkeys(found))


def check_binary(
    compiled: Compiled, side: Side, checks: Sequence[str] = BINARY_CHECKS
) -> tuple[Finding, ...]:
    """What the named checks refuse in a compiled side; nothing for binaries other than cubins.

    Raises:
        InputError: there is no check of that name.
    """
    unknown = sorted(set(checks) - set(BINARY_CHECKS))
    if unknown:
        raise InputError(f"there is no check {unknown[0]!r}", hint=f"one of {', '.join(BINARY_CHECKS)}")
    if compiled.backend != "cuda":
        return ()
    found: list[Finding] = []
    if "state" in checks:
        constants = {v.name for v in static_variables(Source(side.code).plain) if v.constant}
        found += binary.state(compiled, frozenset(constants | _written_by_plan(side)))
    if "sections" in checks:
        found += binary.sections(compiled)
    if "runtime_calls" in checks:
        found += binary.runtime_calls(compiled)
    if "instructions" in checks:
        may_sleep = any(header in side.code for header in SLEEPING)
        found += binary.instructions(compiled, may_sleep=may_sleep)
    return tuple(dict.fromkeys(found))


def hints(side: Side) -> tuple[Finding, ...]:
    """What does not refuse a side but spoils it as data: comments and names that tell which side it is."""
    return tuple(padded_work.label_leaks(Source(side.code)))


def _written_by_plan(side: Side) -> set[str]:
    written = set()
    for step in steps(side.plan):
        if isinstance(step, Upload):
            written.add(step.upload)
        elif isinstance(step, BindTexture):
            written.add(step.bind_texture)
    return written
