"""Sizes of a problem's buffers, and how each output is checked.

Not covered: deciding whether two outputs agree (`kcurate.judge.agreement`).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from kcurate.problem.compare import Bound, Magnitudes, bound_of, row_of
from kcurate.problem.dtypes import is_float, numpy_dtype
from kcurate.problem.expressions import evaluate
from kcurate.records import Buffer, Problem, Side, Tolerance


def shape(buffer: Buffer, sizes: Mapping[str, int]) -> tuple[int, ...]:
    """The logical shape at these sizes."""
    return tuple(evaluate(extent, sizes) for extent in buffer.shape)


def elements(buffer: Buffer, sizes: Mapping[str, int]) -> int:
    """The number of elements at these sizes."""
    return math.prod(shape(buffer, sizes))


def logical_bytes(buffer: Buffer, sizes: Mapping[str, int]) -> int:
    """Bytes of the logical array at these sizes."""
    return elements(buffer, sizes) * numpy_dtype(buffer.dtype).itemsize


def outputs_bytes(problem: Problem, sizes: Mapping[str, int], names: Sequence[str]) -> int:
    """Bytes of these outputs together."""
    return sum(logical_bytes(problem.buffers[name], sizes) for name in names)


def output_names(problem: Problem) -> tuple[str, ...]:
    """The buffers that a side must write."""
    return tuple(name for name, buffer in problem.buffers.items() if buffer.role in ("out", "inout"))


def float_outputs(problem: Problem) -> tuple[str, ...]:
    """The outputs of floating types (packed ones too), whose rounding varies with the order of sums."""
    return tuple(name for name in output_names(problem) if "float" in problem.buffers[name].dtype)


def unordered(buffer: Buffer) -> bool:
    """Whether the rows of an output (its elements, if it has one axis) may come in any order."""
    return buffer.tolerance is not None and buffer.tolerance.order == "any"


def together(problem: Problem, name: str) -> tuple[str, ...]:
    """The outputs that are sorted together with this one: the members of its record, or only itself."""
    if unordered(problem.buffers[name]):
        for record in problem.records:
            if name in record:
                return record
    return (name,)


@dataclass(frozen=True)
class Checked:
    """How each output of a side is checked: every output is in exactly one of the three.

    `by_fingerprint`: equal in every run (up to order, where the problem allows any), so its fingerprint is
    compared, computed in device memory. `by_element`: its rounding may differ, so each element is compared
    with the reference's in device memory. `read_back`: both its rounding and its order may differ, or those
    of a member of its record, so the host compares it.
    """

    by_fingerprint: tuple[str, ...]
    by_element: tuple[str, ...]
    read_back: tuple[str, ...]


def checked(problem: Problem, side: Side) -> Checked:
    """Decide how each output of a side is checked."""
    names = output_names(problem)
    loose = [n for n in names if n in side.nondeterministic and is_float(problem.buffers[n].dtype)]
    by_element = tuple(n for n in loose if not unordered(problem.buffers[n]))
    read_back = tuple(n for n in names if n not in by_element and set(together(problem, n)) & set(loose))
    by_fingerprint = tuple(n for n in names if n not in (*by_element, *read_back))
    return Checked(by_fingerprint, by_element, read_back)


def with_companions(problem: Problem, names: Sequence[str]) -> list[str]:
    """`names`, the outputs that are compared together with them, and the buffers with their valid counts."""
    names = list(dict.fromkeys(member for name in names for member in together(problem, name)))
    tolerances = [problem.buffers[name].tolerance for name in names]
    counts = [rule.valid for rule in tolerances if rule is not None and rule.valid is not None]
    return list(dict.fromkeys([*names, *counts]))


def close_bound(
    problem: Problem, sizes: Mapping[str, int], name: str, whole: Magnitudes, count: int, *, exact: bool
) -> tuple[Bound, float]:
    """The error bound of an output's elements, and the largest allowed norm of the error of all of them.

    `whole` describes the `count` elements of the reference that are compared.
    """
    buffer = problem.buffers[name]
    rule = buffer.tolerance or Tolerance()
    terms = evaluate(rule.terms, sizes)
    row = row_of(shape(buffer, sizes))
    bound = bound_of(buffer.dtype, rule, terms, whole, exact=exact, row=row)
    return bound, bound.of_whole(whole.rms, count)
