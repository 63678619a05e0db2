"""Plans without one of their parts that might be needless.

The parts are steps, sequences of adjacent steps, loop iterations, blocks and shared memory. If steps fill a
buffer, one variant drops them and lets later steps read another buffer of the same type and shape instead:
the dropped steps may only have copied it. Not covered: parts of the code (`kcurate.mutate.ablations`).
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
# The longest sequence of steps or statements that is removed as one part, and the most such parts of a side.
LONGEST_RUN, MOST_RUNS = 6, 30
WARP = 32


def shortened(text: str) -> str:
    """Text on one line, of at most 60 characters."""
    text = " ".join(text.split())
    return text if len(text) <= 60 else f"{text[:57]}..."


def plans_without_part(
    plan: Sequence[Step], buffers: Mapping[str, Buffer]
) -> Iterator[tuple[str, bool, tuple[Step, ...]]]:
    """For each part: its label, whether counts show its cost, and the plan without it; `buffers` by name."""
    yield from islice(_plans_without_runs(plan, buffers), MOST_RUNS)
    for at, step in enumerate(plan):
        before, after = tuple(plan[:at]), tuple(plan[at + 1 :])
        if len(plan) > 1 and not isinstance(step, Swap):
            yield _step_text(step), True, (*before, *after)
        if isinstance(step, For | WhileNonzero):
            for label, fewer in _fewer_rounds(step):
                yield f"{label} {_step_text(step)}", True, (*before, *fewer, *after)
            for label, visible_in_counts, inner in plans_without_part(step.do, buffers):
                yield label, visible_in_counts, (*before, replace(step, do=inner), *after)
        if isinstance(step, Launch):
            half = replace(step, grid=(f"ceil_div({step.grid[0]}, 2)", *step.grid[1:]))
            if step.grid[0] not in (1, "1"):
                yield f"{HALF_GRID}{step.launch}", True, (*before, half, *after)
        if isinstance(step, Launch) and (warp := _one_warp(step)) is not None:
            yield f"{ONE_WARP}{step.launch}", True, (*before, warp, *after)
        if isinstance(step, Launch) and step.shared_bytes != 0:
            for share, bytes_ in (("", 0), ("half of ", f"ceil_div({step.shared_bytes}, 2)")):
                label = f"{share}the {step.shared_bytes} bytes of shared memory of {step.launch}"
                yield label, False, (*before, replace(step, shared_bytes=bytes_), *after)


def _one_warp(step: Launch) -> Launch | None:
    threads, *other_axes = step.block
    is_larger = isinstance(threads, int) and threads > WARP and all(extent == 1 for extent in other_axes)
    return replace(step, block=(WARP, *other_axes)) if is_larger else None


def smaller_grid(plan: Sequence[Step], kernel: str, times: int) -> tuple[Step, ...]:
    """The plan with `times` times fewer blocks along x in all launches of a kernel, also in loops."""
    return tuple(_with_smaller_grid(step, kernel, times) for step in plan)


def _with_smaller_grid(step: Step, kernel: str, times: int) -> Step:
    if isinstance(step, For | WhileNonzero):
        return replace(step, do=smaller_grid(step.do, kernel, times))
    if isinstance(step, Launch) and step.launch == kernel:
        return replace(step, grid=(f"ceil_div({step.grid[0]}, {times})", *step.grid[1:]))
    return step


def _plans_without_runs(
    plan: Sequence[Step], buffers: Mapping[str, Buffer]
) -> Iterator[tuple[str, bool, tuple[Step, ...]]]:
    """The plan without adjacent steps; then also with another of their buffers instead of one used later."""
    for length in range(1, min(LONGEST_RUN, len(plan) - 1) + 1):
        for start in range(len(plan) - length + 1):
            run, after = plan[start : start + length], tuple(plan[start + length :])
            before, run_buffers = tuple(plan[:start]), _buffers_of(run, buffers)
            label = _step_text(run[0]) + (f" to {_step_text(run[-1])}" if length > 1 else "")
            if length > 1:
                yield label, True, (*before, *after)
            for filled in [name for name in _buffers_of(after, buffers) if name in run_buffers]:
                for substitute in run_buffers:
                    if substitute != filled and _same_type_and_shape(buffers[substitute], buffers[filled]):
                        yield (
                            f"{label}, where {substitute} serves",
                            True,
                            (*before, *_renamed(after, filled, substitute)),
                        )


def _same_type_and_shape(first: Buffer, second: Buffer) -> bool:
    return first.dtype == second.dtype and first.shape == second.shape


def _buffers_of(part: object, buffers: Mapping[str, Buffer]) -> tuple[str, ...]:
    """The buffers named in steps, in a step or in one of its fields, in order of first use."""
    if isinstance(part, str):
        return (part,) if part in buffers else ()
    parts = part if isinstance(part, tuple | list) else _fields(part).values()
    return tuple(dict.fromkeys(name for inner in parts for name in _buffers_of(inner, buffers)))


def _renamed(part: _T, old: str, new: str) -> _T:
    """Steps, or a part of one, with the buffer `old` replaced by `new`."""
    if isinstance(part, str):
        return new if part == old else part  # type: ignore[return-value]
    if isinstance(part, tuple):
        return tuple(_renamed(inner, old, new) for inner in part)  # type: ignore[return-value]
    changed = {name: _renamed(inner, old, new) for name, inner in _fields(part).items()}
    return replace(part, **changed) if changed else part  # type: ignore[type-var]


def _fields(part: object) -> dict[str, Any]:
    return {field.name: getattr(part, field.name) for field in fields(part)} if is_dataclass(part) else {}


def _step_text(step: Step) -> str:
    return shortened(str(codec.to_data(step)))


def _fewer_rounds(step: For | WhileNonzero) -> Iterator[tuple[str, tuple[Step, ...]]]:
    """For each smaller number of iterations: what is left out, and the steps that replace the loop."""
    if isinstance(step, WhileNonzero):
        yield "all but one round of", step.do
        return
    start, stride = f"({step.from_})", f"({step.step})"
    rounds = f"ceil_div(({step.to}) - {start}, {stride})"
    for label, remaining in (("all but one round", "1"), ("half the rounds", f"ceil_div({rounds}, 2)"),
                       ("a quarter of the rounds", f"ceil_div(3 * {rounds}, 4)")):  # fmt: skip
        yield f"{label} of", (replace(step, to=f"{start} + {stride} * {remaining}"),)
    yield "all but the last round of", (replace(step, from_=f"{start} + {stride} * ({rounds} - 1)"),)
