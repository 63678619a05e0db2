"""Compares outputs of one problem: bit for bit, or within tolerance.

Not covered: tolerances (`kcurate.problem.compare`), what is run (`kcurate.judge.verifying`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from kcurate.problem.compare import compare, widened
from kcurate.problem.dtypes import is_float, numpy_dtype
from kcurate.problem.expressions import evaluate
from kcurate.problem.outputs import shape, together, unordered
from kcurate.records import Problem

Array = npt.NDArray[Any]
Outputs = Mapping[str, Any]
# Arrays are compared in parts that fit a core's cache.
PART_BYTES = 1 << 16


def arrays_of(
    problem: Problem, blobs: Outputs, sizes: Mapping[str, int], run: int | None, names: Sequence[str]
) -> dict[str, Array]:
    """A run's outputs as arrays of their dtype and shape, from the bytes of a worker's reply.

    `run`: the index of the run; None if the reply holds one run and its keys are plain output names.

    Raises:
        KeyError, ValueError: the reply lacks an output, or its size is wrong.
    """
    return {
        name: blobs[name if run is None else f"{run}/{name}"]
        .view(numpy_dtype(problem.buffers[name].dtype))
        .reshape(shape(problem.buffers[name], sizes))
        for name in names
    }


def valid_count(problem: Problem, name: str, outputs: Outputs) -> int | None:
    """How many leading elements or records of an output are compared: the value of its `valid`; None: all."""
    tolerance = problem.buffers[name].tolerance
    if tolerance is None or tolerance.valid is None:
        return None
    return max(0, min(int(outputs[tolerance.valid].reshape(-1)[0]), int(outputs[name].size)))


def identical(left: Array, right: Array) -> bool:
    """Whether two arrays of one dtype hold the same bits (the same NaN is equal, 0.0 and -0.0 are not)."""
    if left.nbytes != right.nbytes:
        return False
    left_bytes, right_bytes = (
        np.ascontiguousarray(array).reshape(-1).view(np.uint8) for array in (left, right)
    )
    return all(
        np.array_equal(left_bytes[start : start + PART_BYTES], right_bytes[start : start + PART_BYTES])
        for start in range(0, left_bytes.size, PART_BYTES)
    )


def same_bits(problem: Problem, name: str, first: Outputs, again: Outputs) -> bool:
    """Whether the compared elements of an output are bit-identical, in any order if that is allowed."""
    valid = valid_count(problem, name, first)
    if unordered(problem.buffers[name]):
        before, other = (in_order(problem, name, outputs, valid) for outputs in (first, again))
        return all(identical(before[member], other[member]) for member in before)
    return identical(*(outputs[name].reshape(-1)[:valid] for outputs in (first, again)))


def in_order(problem: Problem, name: str, outputs: Outputs, valid: int | None) -> dict[str, Array]:
    """The first `valid` records (None: all) that an output belongs to, sorted; an array per member output.

    A record is one row (along the first axis) of each member. Example: outputs `keys` and `values` form
    records (keys[i], values[i]), and both arrays are permuted together. Exact members are the leading sort
    keys, so rounding does not change the order.
    """
    names = together(problem, name)
    rows = {member: outputs[member].reshape(len(outputs[member]), -1)[:valid] for member in names}
    exact_first = sorted(names, key=lambda member: is_float(problem.buffers[member].dtype))
    keys = [widened(rows[n]) if is_float(problem.buffers[n].dtype) else rows[n] for n in exact_first]
    columns = [column for key in keys for column in key.T]
    order = np.lexsort(columns[::-1])
    return {member: values[order] for member, values in rows.items()}


def differs(
    problem: Problem,
    sizes: Mapping[str, int],
    name: str,
    expected: Outputs,
    got: Outputs,
    *,
    exact: bool = False,
) -> str | None:
    """How one output differs from the expected one beyond its tolerance, in words; None if it agrees.

    If the output belongs to unordered records, whole records are compared; members missing in `got` are taken
    from `expected`. `exact`: `expected` is known to be nearly exact, so the tolerance allows only for `got`'s
    rounding.
    """
    buffer, members = problem.buffers[name], together(problem, name)
    got = {**expected, **got}
    whole = buffer.tolerance is None or buffer.tolerance.valid is None
    if whole and all(identical(expected[member], got[member]) for member in members):
        return None
    valid = valid_count(problem, name, expected)
    if unordered(buffer):
        expected, got = (in_order(problem, name, outputs, valid) for outputs in (expected, got))
        valid = None
    for member in members:
        buffer = problem.buffers[member]
        terms = evaluate(buffer.tolerance.terms, sizes) if buffer.tolerance else 1
        result = compare(
            expected[member],
            got[member],
            buffer.dtype,
            buffer.tolerance,
            terms=terms,
            valid=valid,
            exact=exact,
        )
        if not result.ok:
            return result.detail if len(members) == 1 else f"records of {', '.join(members)}: {result.detail}"
    return None
