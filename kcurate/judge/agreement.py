"""When two outputs of one problem agree, and which outputs a sum can speak for.

Not covered: the rule of a tolerance (`kcurate.problem.compare`), what is run (`kcurate.judge.verifying`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from kcurate.problem.compare import compare
from kcurate.problem.dtypes import numpy_dtype
from kcurate.problem.expressions import evaluate
from kcurate.records import Buffer, Problem, Side

Array = npt.NDArray[Any]
Outputs = Mapping[str, Any]
# Compared together: what stays in a core's cache.
PART_BYTES = 1 << 16


def shape(buffer: Buffer, sizes: Mapping[str, int]) -> tuple[int, ...]:
    """The logical shape at these sizes."""
    return tuple(evaluate(extent, sizes) for extent in buffer.shape)


def logical_bytes(buffer: Buffer, sizes: Mapping[str, int]) -> int:
    """Bytes of the logical array at these sizes."""
    return int(np.prod(shape(buffer, sizes), dtype=np.int64)) * numpy_dtype(buffer.dtype).itemsize


def output_names(problem: Problem) -> tuple[str, ...]:
    """The buffers that a side must write."""
    return tuple(name for name, buffer in problem.buffers.items() if buffer.role in ("out", "inout"))


def summable(problem: Problem, side: Side) -> tuple[str, ...]:
    """Outputs of which a sum on the device says whether they are the same: every byte in its place."""
    padded = {name for name, view in side.views.items() if view.pad is not None}
    partly = {
        name
        for name, b in problem.buffers.items()
        if b.tolerance and (b.tolerance.valid is not None or b.tolerance.order == "any")
    }
    unfit = padded | partly | set(side.nondeterministic)
    return tuple(name for name in output_names(problem) if name not in unfit)


def with_counts(problem: Problem, names: Sequence[str]) -> list[str]:
    """The names, and the buffers that say how much of them counts."""
    tolerances = [problem.buffers[name].tolerance for name in names]
    counts = [t.valid for t in tolerances if t is not None and t.valid is not None]
    return list(dict.fromkeys([*names, *counts]))


def valid_count(problem: Problem, name: str, outputs: Outputs) -> int | None:
    """How many leading elements of an output count, as its `valid` buffer says; None: all."""
    tolerance = problem.buffers[name].tolerance
    if tolerance is None or tolerance.valid is None:
        return None
    return max(0, min(int(outputs[tolerance.valid].reshape(-1)[0]), int(outputs[name].size)))


def identical(one: Array, other: Array) -> bool:
    """Whether two arrays of one dtype hold the same bits (equal NaNs are equal, zeros of unlike sign not)."""
    if one.nbytes != other.nbytes:
        return False
    first, second = (np.ascontiguousarray(array).reshape(-1).view(np.uint8) for array in (one, other))
    return all(
        np.array_equal(first[start : start + PART_BYTES], second[start : start + PART_BYTES])
        for start in range(0, first.size, PART_BYTES)
    )


def in_order(problem: Problem, name: str, flat: Array) -> Array:
    """The elements of an output as they count: sorted where they are a set."""
    tolerance = problem.buffers[name].tolerance
    return np.sort(flat) if tolerance is not None and tolerance.order == "any" else flat


def differs(
    problem: Problem, sizes: Mapping[str, int], name: str, expected: Outputs, got: Outputs
) -> str | None:
    """What is wrong with one output, by the rule of its tolerance; None when it agrees."""
    buffer = problem.buffers[name]
    whole = buffer.tolerance is None or buffer.tolerance.valid is None
    if whole and identical(expected[name], got[name]):
        return None
    terms = evaluate(buffer.tolerance.terms, sizes) if buffer.tolerance else 1
    valid = valid_count(problem, name, expected)
    result = compare(expected[name], got[name], buffer.dtype, buffer.tolerance, terms=terms, valid=valid)
    return None if result.ok else result.detail
