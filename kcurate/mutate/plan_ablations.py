"""Plans without one of their parts that might be needless.

Steps, alone and with their neighbours; rounds of loops, blocks, shared memory. What a run of steps leaves in
a buffer may be what another one holds already, which then takes its place. Not covered: parts of the code
(`kcurate.mutate.ablations`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields, is_dataclass, replace
from itertools import islice
from typing import Any, TypeVar

from kcurate.core import codec
from kcurate.records import Buffer, For, Launch, Step, Swap, WhileNonzero

_T = TypeVar("_T")
HALF_GRID, ONE_WARP = "half the blocks of ", "all but one warp of the blocks of "
# The longest run of steps (or statements) that goes together, and how many runs a side may have.
LONGEST_RUN, MOST_RUNS = 6, 30
WARP = 32


def shortened(text: str) -> str:
    """Text on one line, of at most 60 characters."""
    text = " ".join(text.split())
    return text if len(text) <= 60 else f"{text[:57]}..."


def plans_without_a_part(
    plan: Sequence[Step], buffers: Mapping[str, Buffer]
) -> Iterator[tuple[str, bool, tuple[Step, ...]]]:
    """What is left out, whether counts show what it costs, and the plan without it; `buffers` by name."""
    yield from islice(_plans_without_runs(plan, buffers), MOST_RUNS)
    for at, step in enumerate(plan):
        before, after = tuple(plan[:at]), tuple(plan[at + 1 :])
        if len(plan) > 1 and not isinstance(step, Swap):
            yield _step_text(step), True, (*before, *after)
        if isinstance(step, For | WhileNonzero):
            for what, fewer in _fewer_rounds(step):
                yield f"{what} {_step_text(step)}", True, (*before, *fewer, *after)
            for what, visible, inner in plans_without_a_part(step.do, buffers):
                yield what, visible, (*before, replace(step, do=inner), *after)
        if isinstance(step, Launch):
            half = replace(step, grid=(f"ceil_div({step.grid[0]}, 2)", *step.grid[1:]))
            if step.grid[0] not in (1, "1"):
                yield f"{HALF_GRID}{step.launch}", True, (*before, half, *after)
        if isinstance(step, Launch) and (warp := _one_warp(step)) is not None:
            yield f"{ONE_WARP}{step.launch}", True, (*before, warp, *after)
        if isinstance(step, Launch) and step.shared_bytes != 0:
            for share, bytes_ in (("", 0), ("half of ", f"ceil_div({step.shared_bytes}, 2)")):
                what = f"{share}the {step.shared_bytes} bytes of shared memory of {step.launch}"
                yield what, False, (*before, replace(step, shared_bytes=bytes_), *after)


def _one_warp(step: Launch) -> Launch | None:
    threads, *others = step.block
    more = isinstance(threads, int) and threads > WARP and all(other == 1 for other in others)
    return replace(step, block=(WARP, *others)) if more else None


def spread_less(plan: Sequence[Step], kernel: str, times: int) -> tuple[Step, ...]:
    """A plan whose launches of a kernel have so many times fewer blocks along the first axis."""
    return tuple(_spread_less(step, kernel, times) for step in plan)


def _spread_less(step: Step, kernel: str, times: int) -> Step:
    if isinstance(step, For | WhileNonzero):
        return replace(step, do=spread_less(step.do, kernel, times))
    if isinstance(step, Launch) and step.launch == kernel:
        return replace(step, grid=(f"ceil_div({step.grid[0]}, {times})", *step.grid[1:]))
    return step


def _plans_without_runs(
    plan: Sequence[Step], buffers: Mapping[str, Buffer]
) -> Iterator[tuple[str, bool, tuple[Step, ...]]]:
    """The plan without neighbouring steps, or with a buffer that they use in place of one that they fill."""
    for length in range(1, min(LONGEST_RUN, len(plan) - 1) + 1):
        for first in range(len(plan) - length + 1):
            run, after = plan[first : first + length], tuple(plan[first + length :])
            before, used = tuple(plan[:first]), _buffers_of(run, buffers)
            what = _step_text(run[0]) + (f" to {_step_text(run[-1])}" if length > 1 else "")
            if length > 1:
                yield what, True, (*before, *after)
            for late in [name for name in _buffers_of(after, buffers) if name in used]:
                for early in used:
                    if early != late and _alike(buffers[early], buffers[late]):
                        yield f"{what}, where {early} serves", True, (*before, *_renamed(after, late, early))


def _alike(first: Buffer, second: Buffer) -> bool:
    return first.dtype == second.dtype and first.shape == second.shape


def _buffers_of(part: object, buffers: Mapping[str, Buffer]) -> tuple[str, ...]:
    """The buffers that steps, a step or one of its fields name, in order."""
    if isinstance(part, str):
        return (part,) if part in buffers else ()
    parts = part if isinstance(part, tuple | list) else _fields(part).values()
    return tuple(dict.fromkeys(name for inner in parts for name in _buffers_of(inner, buffers)))


def _renamed(part: _T, late: str, early: str) -> _T:
    """Steps, or a part of one, with a buffer in another's place."""
    if isinstance(part, str):
        return early if part == late else part  # type: ignore[return-value]
    if isinstance(part, tuple):
        return tuple(_renamed(inner, late, early) for inner in part)  # type: ignore[return-value]
    changed = {name: _renamed(inner, late, early) for name, inner in _fields(part).items()}
    return replace(part, **changed) if changed else part  # type: ignore[type-var]


def _fields(part: object) -> dict[str, Any]:
    return {field.name: getattr(part, field.name) for field in fields(part)} if is_dataclass(part) else {}


def _step_text(step: Step) -> str:
    return shortened(str(codec.to_data(step)))


def _fewer_rounds(step: For | WhileNonzero) -> Iterator[tuple[str, tuple[Step, ...]]]:
    """What is left out of a loop's rounds, and the loop without them."""
    if isinstance(step, WhileNonzero):
        yield "all but one round of", step.do
        return
    start, stride = f"({step.from_})", f"({step.step})"
    rounds = f"ceil_div(({step.to}) - {start}, {stride})"
    for what, left in (("all but one round", "1"), ("half the rounds", f"ceil_div({rounds}, 2)"),
                       ("a quarter of the rounds", f"ceil_div(3 * {rounds}, 4)")):  # fmt: skip
        yield f"{what} of", (replace(step, to=f"{start} + {stride} * {left}"),)
    yield "all but the last round of", (replace(step, from_=f"{start} + {stride} * ({rounds} - 1)"),)
