"""A side's plan for rules: its launches, their block extents, and the plan with launches replaced.

Expressions stay text (`kcurate.problem.expressions`); a value that depends on sizes is None.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from kcurate import records
from kcurate.errors import ProblemError
from kcurate.problem.expressions import evaluate


def launches(side: records.Side, kernel: bytes | str | None = None) -> tuple[records.Launch, ...]:
    """The launches of one kernel (None: of all) in the order of the plan, including those in loops."""
    name = kernel.decode("utf-8", "replace") if isinstance(kernel, bytes) else kernel
    all_launches = (step for step in records.steps(side.plan) if isinstance(step, records.Launch))
    return tuple(launch for launch in all_launches if name is None or own_name(launch) == name)


def own_name(launch: records.Launch) -> str:
    """The kernel's name without its namespaces."""
    return launch.launch.rpartition("::")[2]


def with_launches(
    plan: Sequence[records.Step], change: Callable[[records.Launch], records.Launch]
) -> tuple[records.Step, ...]:
    """The plan with `change` applied to every launch."""
    changed: list[records.Step] = []
    for step in plan:
        if isinstance(step, records.Launch):
            changed.append(change(step))
        elif isinstance(step, records.For | records.WhileNonzero):
            changed.append(replace(step, do=with_launches(step.do, change)))
        else:
            changed.append(step)
    return tuple(changed)


def number(expression: records.Expr) -> int | None:
    """The value of an expression that depends on no size, else None."""
    try:
        return evaluate(expression, {})
    except ProblemError:
        return None


def block(launch: records.Launch) -> tuple[int | None, int | None, int | None]:
    """A launch's block extents (x, y, z); None for those that depend on sizes."""
    x, y, z = (*launch.block, 1, 1)[:3]
    return number(x), number(y), number(z)


def block_threads(launch: records.Launch) -> int | None:
    """The number of threads per block."""
    x, y, z = block(launch)
    return None if x is None or y is None or z is None else x * y * z


def same_block(side: records.Side, kernel: bytes) -> tuple[int, int, int] | None:
    """The block extents that all launches of a kernel share; None if they differ or are unknown."""
    blocks = {block(launch) for launch in launches(side, kernel)}
    if len(blocks) != 1:
        return None
    x, y, z = blocks.pop()
    return None if x is None or y is None or z is None else (x, y, z)


def aliased(launch: records.Launch, place: int) -> bool:
    """Whether the buffer passed at a position may also be passed at another."""
    if place >= len(launch.args) or not all(
        isinstance(arg, str | records.BufferArg | records.ValueArg) for arg in launch.args
    ):
        return True
    names = [arg.buffer if isinstance(arg, records.BufferArg) else arg for arg in launch.args]
    return names.count(names[place]) > 1
