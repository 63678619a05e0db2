"""The static checks by name, on a side's source and plan before compiling, and on its binary after.

They keep hostile code away from the compiler's host, clocks, and state that survives a run; running the side
shows whether it is correct. Not covered: the rules (`checks.spelling`, `checks.compiler_names`,
`checks.source`, `checks.assembly`, `checks.pointers`, `checks.global_state`, `checks.sham_work`,
`checks.binary`), repeated launches, which need a bound plan (`checks.repeated_launches`), outcomes
(`admission`), sandboxing (`workers.inside.isolation`).
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence

from kcurate.backends.base import Compiled
from kcurate.errors import InputError, ProblemError
from kcurate.judge.checks import assembly, binary, pointers, sham_work, spelling
from kcurate.judge.checks import source as source_checks
from kcurate.judge.checks.compiler_names import compiler_names
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
from kcurate.triton_source import refusals

# A plan with more distinct constants than this is a table of answers.
MAX_PLAN_CONSTANTS = 64
# What follows `mutable` where it is a lambda's.
_AFTER_MUTABLE = frozenset({"{", "->", "noexcept"})
# Findings reported per check.
MAX_FINDINGS = 20

SourceCheck = Callable[[Source], Iterator[Finding]]
PlanCheck = Callable[[Source, Side], Iterator[Finding]]


def literal_plan(source: Source, side: Side) -> Iterator[Finding]:
    """Plans with more than `MAX_PLAN_CONSTANTS` distinct constants in fills and kernel arguments."""
    values: set[str] = set()
    for step in steps(side.plan):
        written: tuple[Expr | float, ...] = ()
        if isinstance(step, Fill):
            written = (step.value,)
        elif isinstance(step, Launch):
            written = tuple(argument.value for argument in step.args if isinstance(argument, ValueArg))
        values |= {str(value) for value in written if _is_literal(value)}
    if len(values) > MAX_PLAN_CONSTANTS:
        yield Finding("literal_plan", f"the plan has {len(values)} distinct constants")


def _is_literal(value: Expr | float) -> bool:
    """Whether a value depends on no size; `kcurate.problem.check` reports text that cannot be parsed."""
    try:
        return isinstance(value, float) or not names_in(value)
    except ProblemError:
        return False


def state(source: Source, side: Side) -> Iterator[Finding]:
    """Writable variables that keep state between launches, except those that the plan writes; `mutable`."""
    written = _written_by_plan(side)
    for variable in static_variables(source.plain):
        if not variable.constant and variable.name not in written:
            what = f"the variable {variable.name!r} keeps state between launches"
            yield Finding("state", what, variable.line)
    for stream in source.streams:
        for at, token in enumerate(stream):
            following = stream[at + 1].text if at + 1 < len(stream) else ""
            if token.text == "mutable" and following not in _AFTER_MUTABLE:
                yield Finding("state", "a mutable member, which is writable in a constant", token.line)


def nondeterminism(source: Source, side: Side) -> Iterator[Finding]:
    """Outputs declared nondeterministic although the code has no atomics."""
    if side.nondeterministic and not any(
        token.text.startswith(("atomic", "__fAtomic", "__dAtomic"))
        or "red." in token.text
        or "atom." in token.text
        for stream in source.streams
        for token in stream
    ):
        names = ", ".join(side.nondeterministic)
        yield Finding("nondeterminism", f"{names}: declared nondeterministic, but the code has no atomics")


SOURCE_CHECKS: Mapping[str, SourceCheck] = {
    "size": spelling.size,
    "characters": spelling.characters,
    "directives": spelling.directives,
    "headers": spelling.headers,
    "pasting": spelling.pasting,
    "compilers": compiler_names,
    "calls": source_checks.calls,
    "host": source_checks.host,
    "assembly": assembly.assembly,
    "int_as_ptr": pointers.int_as_ptr,
    "sham": sham_work.find_sham_work,
}
PLAN_CHECKS: Mapping[str, PlanCheck] = {
    "literal_plan": literal_plan,
    "state": state,
    "nondeterminism": nondeterminism,
}
BINARY_CHECKS: tuple[str, ...] = ("state", "sections", "frames", "runtime_calls", "instructions")
ALL_CHECKS: tuple[str, ...] = (*SOURCE_CHECKS, *PLAN_CHECKS)


def check_source(side: Side, checks: Sequence[str] = ALL_CHECKS) -> tuple[Finding, ...]:
    """What the named checks find in a side's code and plan, in that order. `size` always runs, and first.

    A module in Triton has an allow-list instead (`kcurate.triton_source.allowed`).

    Raises:
        InputError: there is no check of that name.
    """
    unknown = [name for name in checks if name not in ALL_CHECKS]
    if unknown:
        raise InputError(f"unknown check {unknown[0]!r}", hint=f"one of {', '.join(ALL_CHECKS)}")
    if side.language == "triton":
        return _check_triton(side)
    source = Source(side.code)
    findings: list[Finding] = list(spelling.size(source))
    if findings:
        return tuple(findings)
    for name in checks:
        more = SOURCE_CHECKS[name](source) if name in SOURCE_CHECKS else PLAN_CHECKS[name](source, side)
        findings += itertools.islice(more, MAX_FINDINGS)
    return tuple(dict.fromkeys(findings))


def _check_triton(side: Side) -> tuple[Finding, ...]:
    """What is not allowed in a module in Triton, and in its plan."""
    findings = [
        Finding("triton", refusal.what, refusal.line)
        for refusal in itertools.islice(refusals(side.code), MAX_FINDINGS)
    ]
    findings += literal_plan(Source(""), side)
    if side.nondeterministic and "atomic_" not in side.code:
        names = ", ".join(side.nondeterministic)
        findings.append(
            Finding("nondeterminism", f"{names}: declared nondeterministic, but the code has no atomics")
        )
    return tuple(dict.fromkeys(findings))


def check_binary(
    compiled: Compiled, side: Side, checks: Sequence[str] = BINARY_CHECKS
) -> tuple[Finding, ...]:
    """What the named checks find in a compiled side; nothing in binaries other than cubins.

    Raises:
        InputError: there is no check of that name.
    """
    unknown = sorted(set(checks) - set(BINARY_CHECKS))
    if unknown:
        raise InputError(f"unknown check {unknown[0]!r}", hint=f"one of {', '.join(BINARY_CHECKS)}")
    if compiled.backend != "cuda":
        return ()
    findings: list[Finding] = []
    if "state" in checks:
        plain = Source(side.code).plain if side.language == "cuda" else ()
        constants = {v.name for v in static_variables(plain) if v.constant}
        findings += binary.state(compiled, frozenset(constants | _written_by_plan(side)))
    if "sections" in checks:
        findings += binary.sections(compiled)
    if "frames" in checks:
        findings += binary.frames(compiled)
    if "runtime_calls" in checks:
        findings += binary.runtime_calls(compiled)
    if "instructions" in checks:
        findings += binary.instructions(compiled)
    return tuple(dict.fromkeys(findings))


def hints(side: Side) -> tuple[Finding, ...]:
    """Comments and names that tell which side this is: no reason to refuse a side, but bad training data."""
    return tuple(sham_work.label_leaks(Source(side.code))) if side.language == "cuda" else ()


def _written_by_plan(side: Side) -> set[str]:
    written = set()
    for step in steps(side.plan):
        if isinstance(step, Upload):
            written.add(step.upload)
        elif isinstance(step, BindTexture):
            written.add(step.bind_texture)
    return written
