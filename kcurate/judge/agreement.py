"""Whether two outputs of one problem agree, and which outputs a fingerprint can stand for.

Not covered: tolerances (`kcurate.problem.compare`), what is run (`kcurate.judge.verifying`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from kcurate.problem.compare import Bound, Magnitudes, bound_of, compare, norm_bound
from kcurate.problem.dtypes import is_float, numpy_dtype
from kcurate.problem.expressions import evaluate
from kcurate.records import Buffer, Problem, Side, Tolerance

Array = npt.NDArray[Any]
Outputs = Mapping[str, Any]
# Arrays are compared in parts that fit a core's cache.
PART_BYTES = 1 << 16


def shape(buffer: Buffer, sizes: Mapping[str, int]) -> tuple[int, ...]:
    """The logical shape at these sizes."""
    return tuple(evaluate(extent, sizes) for extent in buffer.shape)


def logical_bytes(buffer: Buffer, sizes: Mapping[str, int]) -> int:
    """Bytes of the logical array at these sizes."""
    return int(np.prod(shape(buffer, sizes), dtype=np.int64)) * numpy_dtype(buffer.dtype).itemsize


def arrays_of(
    problem: Problem, blobs: Outputs, sizes: Mapping[str, int], run: int, names: Sequence[str]
) -> dict[str, Array]:
    """A run's outputs as logical arrays, from the bytes of a worker's reply.

    Raises:
        KeyError, ValueError: the reply lacks one, or it has another size.
    """
    return {
        name: blobs[f"{run}/{name}"]
        .view(numpy_dtype(problem.buffers[name].dtype))
        .reshape(shape(problem.buffers[name], sizes))
        for name in names
    }


def output_names(problem: Problem) -> tuple[str, ...]:
    """The buffers that a side must write."""
    return tuple(name for name, buffer in problem.buffers.items() if buffer.role in ("out", "inout"))


@dataclass(frozen=True)
class Checked:
    """How each output of a side is checked where it lies: every output is in one of the three.

    `summed`: the same in every run (in any order, where the problem allows it), so a fingerprint stands for
    it. `close`: its rounding may differ, so each element is compared with the reference's. `whole`: its
    rounding and its order may differ, so it is read back.
    """

    summed: tuple[str, ...]
    close: tuple[str, ...]
    whole: tuple[str, ...]


def checked(problem: Problem, side: Side) -> Checked:
    """How each output of a side is checked."""
    names = output_names(problem)
    loose = [n for n in names if n in side.nondeterministic and is_float(problem.buffers[n].dtype)]
    unordered = [n for n in loose if (t := problem.buffers[n].tolerance) is not None and t.order == "any"]
    summed = tuple(n for n in names if n not in loose)
    return Checked(summed, tuple(n for n in loose if n not in unordered), tuple(unordered))


def with_valid_counts(problem: Problem, names: Sequence[str]) -> list[str]:
    """`names`, plus the buffers that hold their valid counts."""
    tolerances = [problem.buffers[name].tolerance for name in names]
    counts = [t.valid for t in tolerances if t is not None and t.valid is not None]
    return list(dict.fromkeys([*names, *counts]))


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


def close_bound(
    problem: Problem, sizes: Mapping[str, int], name: str, whole: Magnitudes, count: int, *, exact: bool
) -> tuple[Bound, float]:
    """How far the elements of an output may be off, and the largest norm of the whole difference.

    `whole` describes the `count` elements of the reference that are compared.
    """
    buffer = problem.buffers[name]
    rule = buffer.tolerance or Tolerance()
    terms = evaluate(rule.terms, sizes)
    norm = norm_bound(buffer.dtype, rule, terms, exact=exact) * whole.rms * float(np.sqrt(count))
    return bound_of(buffer.dtype, rule, terms, whole, exact=exact), norm
