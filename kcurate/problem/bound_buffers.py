"""A side's buffers bound to sizes: extents, layouts, and limits on their total size.

Not covered: plans (`kcurate.problem.program`).
"""

from __future__ import annotations

from collections.abc import Mapping

from kcurate.errors import ProblemError, at
from kcurate.problem.addresses import check_tables
from kcurate.problem.expressions import evaluate
from kcurate.problem.ops import BoundBuffer
from kcurate.records import Buffer, Problem, Side, View

MAX_BUFFER_BYTES = 1 << 36
# Inputs are generated on the host, sometimes twice.
MAX_INPUT_BYTES = 1 << 33
# Inputs that a side adds are lookup tables. The judge fills them outside the measured time, so a large one
# could hold precomputed results.
MAX_OWN_INPUT_BYTES = 1 << 28


def bind_buffers(problem: Problem, side: Side, sizes: Mapping[str, int]) -> dict[str, BoundBuffer]:
    """Every buffer of the problem and of the side.

    Raises:
        ProblemError: an extent below one, a layout that does not fit, too many bytes.
    """
    bound = {}
    for name, record in {**problem.buffers, **side.buffers}.items():
        with at(f"buffers.{name}"):
            bound[name] = _bind_buffer(name, record, side.views.get(name), sizes, name in side.buffers)
    input_bytes = sum(b.size_bytes for b in bound.values() if b.record.role in ("in", "inout"))
    own_input_bytes = sum(b.size_bytes for b in bound.values() if b.record.role == "in" and b.extra)
    for label, size, most in (
        ("the side's own inputs", own_input_bytes, MAX_OWN_INPUT_BYTES),
        ("inputs", input_bytes, MAX_INPUT_BYTES),
        ("all", sum(b.size_bytes for b in bound.values()), MAX_BUFFER_BYTES),
    ):
        if size > most:
            raise ProblemError(f"{label} together have {size} bytes, more than {most}", where="buffers")
    check_tables(bound)
    return bound


def _bind_buffer(
    name: str, record: Buffer, view: View | None, sizes: Mapping[str, int], extra: bool
) -> BoundBuffer:
    shape = tuple(evaluate(extent, sizes) for extent in record.shape)
    if not shape or any(extent < 1 for extent in shape):
        raise ProblemError(f"the shape {shape} has an extent below one")
    before, after = (evaluate(p, sizes) for p in record.pad or (0, 0))
    physical = shape
    if view is not None and view.permute is not None:
        if sorted(view.permute) != list(range(len(shape))):
            raise ProblemError(f"permute {view.permute} is not a permutation of the axes")
        physical = tuple(shape[axis] for axis in view.permute)
    if view is not None and view.pad is not None:
        pads = [(evaluate(a, sizes), evaluate(b, sizes)) for a, b in view.pad]
        if len(pads) != len(physical) or any(a < 0 or b < 0 for a, b in pads):
            raise ProblemError("pad needs one pair of counts per axis")
        physical = tuple(a + extent + b for extent, (a, b) in zip(physical, pads, strict=True))
    bound = BoundBuffer(name, record, shape, physical, (before, after), view, extra, sizes)
    if min(before, after) < 0:
        raise ProblemError(f"a negative pad ({before}, {after})")
    size_bytes = bound.size_bytes + (before + after) * bound.itemsize
    if size_bytes > MAX_BUFFER_BYTES:
        raise ProblemError(f"{size_bytes} bytes, more than {MAX_BUFFER_BYTES}")
    return bound
