"""Whether two outputs of one problem agree.

Not covered: tolerances (`kcurate.problem.compare`), what is run (`kcurate.judge.verifying`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from kcurate.problem.compare import compare
from kcurate.problem.dtypes import numpy_dtype
from kcurate.problem.expressions import evaluate
from kcurate.problem.outputs import shape
from kcurate.records import Problem

Array = npt.NDArray[Any]
Outputs = Mapping[str, Any]
# Arrays are compared in parts that fit a core's cache.
PART_BYTES = 1 << 16


def arrays_of(
    problem: Problem, blobs: Outputs, sizes: Mapping[str, int], run: int | None, names: Sequence[str]
) -> dict[str, Array]:
    """A run's outputs as logical arrays, from the bytes of a worker's reply.

    `run` None: the reply holds one run, and names outputs alone.

    Raises:
        KeyError, ValueError: the reply lacks one, or it has another size.
    """
    return {
        name: blobs[name if run is None else f"{run}/{name}"]
        .view(numpy_dtype(problem.buffers[name].dtype))
        .reshape(shape(problem.buffers[name], sizes))
        for name in names
    }


def valid_count(problem: Problem, name: str, outputs: Outputs) -> int | None:
    """How many leading elements of an output are compared, read from its `valid` buffer; None: all."""
    tolerance = problem.buffers[name].tolerance
    if tolerance is None or tolerance.valid is None:
        return None
    return max(0, min(int(outputs[tolerance.valid].reshape(-1)[0]), int(outputs[name].size)))


def identical(one: Array, other: Array) -> bool:
    """Whether two arrays of one dtype hold the same bits (the same NaN is equal, 0.0 and -0.0 are not)."""
    if one.nbytes != other.nbytes:
        return False
    first, second = (np.ascontiguousarray(array).reshape(-1).view(np.uint8) for array in (one, other))
    return all(
        np.array_equal(first[start : start + PART_BYTES], second[start : start + PART_BYTES])
        for start in range(0, first.size, PART_BYTES)
    )


def sorted_if_unordered(problem: Problem, name: str, flat: Array) -> Array:
    """An output's elements, sorted where the problem leaves their order open."""
    tolerance = problem.buffers[name].tolerance
    return np.sort(flat) if tolerance is not None and tolerance.order == "any" else flat


def differs(
    problem: Problem,
    sizes: Mapping[str, int],
    name: str,
    expected: Outputs,
    got: Outputs,
    *,
    exact: bool = False,
) -> str | None:
    """How one output differs from the expected one under its tolerance; None when it agrees.

    `exact`: the expected one's own rounding is known to be small.
    """
    buffer = problem.buffers[name]
    whole = buffer.tolerance is None or buffer.tolerance.valid is None
    if whole and identical(expected[name], got[name]):
        return None
    terms = evaluate(buffer.tolerance.terms, sizes) if buffer.tolerance else 1
    valid = valid_count(problem, name, expected)
    result = compare(
        expected[name], got[name], buffer.dtype, buffer.tolerance, terms=terms, valid=valid, exact=exact
    )
    return None if result.ok else result.detail
