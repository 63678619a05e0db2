"""Planted wrong answers: what programs with one known mistake would write, computed from right answers.

`planted` lists them for a problem. Most are wrong in one output and right in the others; a few do not depend
on the inputs at all, such as zeros. Mistakes in one output are only planted in floating outputs: integers are
compared exactly, so an integer answer that a trial accepts is the right one. Not covered: mistakes
that only further runs of the reference show (an input that is ignored, half of the terms), and which planted
answers a problem must refuse (both `kcurate.judge.negative_controls`).
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from kcurate.judge.agreement import Outputs, valid_count
from kcurate.judge.trials import Trial, Tried
from kcurate.problem.compare import widened
from kcurate.problem.dtypes import is_float, numpy_dtype
from kcurate.problem.inputs.spoiled import NARROWER
from kcurate.problem.outputs import elements, output_names, unordered
from kcurate.records import Problem, Tolerance

WRONG_SHARE = 0.01
# Elements of the block that alone is right, or alone is wrong; at most half of the output.
BLOCK = 256
# A vectorised program that ignores the tail leaves out the elements beyond a multiple of this.
VECTOR = 4

Array = npt.NDArray[Any]
# Computes the wrong values of an output's compared part from the right ones; None if the mistake is
# impossible.
Mistake = Callable[[Array, np.random.Generator], Array | None]


@dataclass(frozen=True)
class Planted:
    """A wrong program: `label` in words, and `answer`, its outputs in a trial (None: not wrong there).

    `output`: the wrong output; None if the whole answer counts as wrong, even if it is right by chance.
    `mend`: how to change the problem so that its tests reject the answer.
    """

    label: str
    answer: Callable[[Trial], Outputs | None]
    mend: str
    output: str | None = None


def planted(tried: Tried) -> Iterator[Planted]:
    """Every wrong program for a problem."""
    problem, expected = tried.problem, tried.expected
    names = output_names(problem)
    means = {n: _mean(a) for t in tried.trials[:1] for n, a in expected[t.slot].items()}
    for label, answer in (
        ("zeros", lambda t: {n: np.zeros_like(a) for n, a in expected[t.slot].items()}),
        ("a constant", lambda t: {n: _full(a, means[n]) for n, a in expected[t.slot].items()}),
        ("another seed's answer", partial(_stale, tried)),
        ("outputs left as they were", partial(_untouched, tried)),
    ):
        yield Planted(label, answer, "no input changes the outputs: give these wider ranges, or larger sizes")
    for output, other_output in itertools.combinations(names, 2):
        apart = partial(_torn, tried, output, other_output)
        yield Planted(f"pairs of {output} and {other_output} torn apart", apart, "declare them in `records`")
    for name in (n for n in names if unordered(problem.buffers[n]) and len(problem.buffers[n].shape) > 1):
        float_output = name if is_float(problem.buffers[name].dtype) else None
        label = f"members of {name} exchanged between rows"
        yield Planted(label, partial(_torn, tried, name, name), _mend(problem, name), float_output)
    for name in names:
        mend = _mend(problem, name)
        yield Planted(f"{name} with one element in a hundred wrong", partial(_corrupted, tried, name), mend)
        if is_float(problem.buffers[name].dtype):
            for label, wrong in _wrong_in(tried, name):
                yield Planted(label, wrong, mend, name)


def _mend(problem: Problem, output: str) -> str:
    """How to change the problem so that its tests reject wrong values of an output."""
    rule = problem.buffers[output].tolerance or Tolerance()
    if rule.valid is not None:
        return f"have more of {output} compared: raise {rule.valid}"
    if rule.relative is not None:
        return f"lower `relative` of {output} ({rule.relative:g})"
    if rule.scale is not None:
        return f"lower `scale` of {output} ({rule.scale:g})"
    if rule.terms != 1:
        return f"lower `terms` of {output} ({rule.terms}), or give its inputs wider ranges"
    return f"give the inputs of {output} wider ranges"


def _wrong_in(tried: Tried, name: str) -> Iterator[tuple[str, Callable[[Trial], Outputs | None]]]:
    """The programs that are wrong in one floating output: each in words, with its answer."""
    buffer = tried.problem.buffers[name]
    yield f"another seed's answer in {name}", partial(_stale, tried, name=name)
    for source, buffer_of_source in tried.problem.buffers.items():
        if buffer_of_source.role in ("in", "inout"):
            yield f"a copy of {source} in {name}", partial(_copied, tried, name, source)
            half_copy = partial(_copied, tried, name, source, second_half_only=True)
            yield f"the first half of {name} only, then a copy of {source}", half_copy
    mistakes = dict(MISTAKES)
    if buffer.tolerance is None or buffer.tolerance.relative is None:
        mistakes["one row rounded to the next narrower type"] = partial(_narrow_row, buffer.dtype)
    for axis in range(len(buffer.shape)):
        mistakes |= {f"{label} along axis {axis}": partial(make, axis) for label, make in ALONG.items()}
    for label, make in mistakes.items():
        yield f"{name} with {label}", partial(_mistaken, tried, name, make)


def _mistaken(tried: Tried, name: str, mistake: Mistake, trial: Trial) -> Outputs | None:
    """The right outputs with a mistake in the compared part of one of them."""
    right = tried.expected[trial.slot]
    count = valid_count(tried.problem, name, right)
    part = right[name] if count is None else right[name].reshape(-1)[:count]
    wrong = mistake(part, np.random.default_rng(trial.seed)) if part.size else None
    if wrong is None:
        return None
    whole = right[name].copy().reshape(-1)
    whole[: part.size] = wrong.astype(whole.dtype).reshape(-1)
    return {**right, name: whole.reshape(right[name].shape)}


def _stale(tried: Tried, trial: Trial, *, name: str | None = None) -> Outputs | None:
    """The outputs (or one of them) of a trial of the same sizes on other inputs."""
    other = tried.other(trial)
    if other is None:
        return None
    stale = tried.expected[other.slot]
    return stale if name is None else {**tried.expected[trial.slot], name: stale[name]}


def _untouched(tried: Tried, trial: Trial) -> Outputs | None:
    """The initial contents of the outputs; None if one of them has none."""
    names = output_names(tried.problem)
    if any(tried.problem.buffers[name].role == "out" for name in names):
        return None
    return {name: tried.inputs(trial)[name] for name in names}


def _torn(tried: Tried, first: str, second: str, trial: Trial) -> Outputs | None:
    """Adjacent rows of `second` exchanged while `first` stays, if both are unordered and that breaks records.

    If `second` is `first`: only the first elements of its rows are exchanged.
    """
    right = tried.expected[trial.slot]
    first_rule, second_rule = (
        tried.problem.buffers[name].tolerance or Tolerance() for name in (first, second)
    )
    same_records = first_rule.order == second_rule.order == "any" and first_rule.valid == second_rule.valid
    if not same_records or len(right[first]) != len(right[second]):
        return None
    count = valid_count(tried.problem, first, right)
    keys, values = (right[name].reshape(len(right[name]), -1)[:count] for name in (first, second))
    if first == second:
        keys, values = keys[:, 1:], values[:, :1]
    swapped = _swapped(0, values, np.random.default_rng(0)) if keys.size else None
    if swapped is None or _paired(keys, values) == _paired(keys, swapped):
        return None
    torn = right[second].copy()
    torn.reshape(len(torn), -1)[: len(swapped), : swapped.shape[1]] = swapped
    return {**right, second: torn}


def _paired(keys: Array, values: Array) -> bytes:
    """The bytes of the pairs (keys[i], values[i]), sorted."""
    words = [np.ascontiguousarray(part).view(np.uint8).reshape(len(part), -1) for part in (keys, values)]
    pairs = np.concatenate(words, axis=1)
    return bytes(pairs[np.lexsort(pairs.T)])


def _copied(
    tried: Tried, name: str, source: str, trial: Trial, *, second_half_only: bool = False
) -> Outputs | None:
    """An input of the same size in place of one output, or only of its second half (`second_half_only`).

    None for a single element: the sum of a one-element row is a copy, which says nothing about longer rows.
    """
    right = tried.expected[trial.slot]
    array = right[name]
    if elements(tried.problem.buffers[source], trial.sizes) != array.size or array.size < 2:
        return None
    with np.errstate(invalid="ignore", over="ignore"):  # values outside the output's type
        copy = tried.inputs(trial)[source].reshape(-1).astype(array.dtype)
    if second_half_only:
        copy[: array.size // 2] = array.reshape(-1)[: array.size // 2]
    return {**right, name: copy.reshape(array.shape)}


def _corrupted(tried: Tried, name: str, trial: Trial) -> Outputs:
    """The right outputs with 1% (at least one) of the compared elements of one of them clearly wrong."""
    right = tried.expected[trial.slot]
    flat = right[name].copy().reshape(-1)
    count = valid_count(tried.problem, name, right)
    count = flat.size if count is None else count
    rng = np.random.default_rng(trial.seed)
    picks = rng.choice(count, max(1, int(WRONG_SHARE * count)), replace=False) if count else np.zeros(0, int)
    if is_float(tried.problem.buffers[name].dtype):
        values = widened(flat)
        size = _rms(values) or 1.0
        with np.errstate(invalid="ignore", over="ignore"):  # of an infinity it may be NaN, which is wrong too
            flat[picks] = (values[picks] + np.maximum(np.abs(values[picks]), size)).astype(flat.dtype)
    else:
        flat[picks] = ~flat[picks] if flat.dtype == bool else flat[picks] ^ 1
    return {**right, name: flat.reshape(right[name].shape)}


def _mean(array: Array) -> float:
    """The mean of the finite elements."""
    flat = widened(array).reshape(-1)
    return float(np.mean(flat[np.isfinite(flat)])) if np.isfinite(flat).any() else 0.0


def _full(array: Array, value: float) -> Array:
    return np.full(array.shape, value).astype(array.dtype)


def _rms(values: Array) -> float:
    """The root mean square of the finite elements."""
    finite = values[np.isfinite(values)]
    return float(np.sqrt(np.mean(finite**2))) if finite.size else 0.0


def _halved(values: Array, _: np.random.Generator, *, keep_first: bool) -> Array | None:
    """Zeros in the second half, or in the first if not `keep_first`."""
    flat = values.copy().reshape(-1)
    half = flat.size // 2
    flat[half:] = 0 if keep_first else flat[half:]
    flat[:half] = flat[:half] if keep_first else 0
    return flat.reshape(values.shape) if half else None


def _in_block(values: Array, rng: np.random.Generator, *, keep_block: bool) -> Array | None:
    """Zeros outside one block at a random offset (`keep_block`), or inside it."""
    flat = values.copy().reshape(-1)
    block = min(BLOCK, flat.size // 2)
    start = int(rng.integers(flat.size - block + 1))
    inside = np.zeros(flat.size, bool)
    inside[start : start + block] = True
    flat[inside != keep_block] = 0
    return flat.reshape(values.shape) if block else None


def _without_tail(values: Array, _: np.random.Generator) -> Array | None:
    flat = values.copy().reshape(-1)
    flat[flat.size - (flat.size % VECTOR or 1) :] = 0
    return flat.reshape(values.shape) if flat.size > 1 else None


def _limited(values: Array, _: np.random.Generator, *, low: float, high: float) -> Array:
    """Values clipped to a range in multiples of the largest magnitude."""
    wide = widened(values)
    largest = float(np.abs(wide[np.isfinite(wide)]).max(initial=0.0))
    return np.clip(wide, low * largest, high * largest)


def _rows(values: Array) -> tuple[Array, Array]:
    """A copy of the values, and a view of it by rows; a single long row is viewed as blocks."""
    row = values.shape[-1] if values.ndim > 1 and values.shape[-1] > 1 else min(BLOCK, values.size)
    copy = values.copy().reshape(-1)
    return copy.reshape(values.shape), copy[: copy.size // row * row].reshape(-1, row)


def _narrow_row(dtype: str, values: Array, rng: np.random.Generator) -> Array:
    copy, rows = _rows(values)
    at = int(rng.integers(len(rows)))
    with np.errstate(over="ignore", invalid="ignore"):
        rounded = rows[at].astype(numpy_dtype(NARROWER.get(dtype, dtype))).astype(rows.dtype)
    rows[at] = np.where(np.isfinite(rounded), rounded, rows[at])
    return copy


def _without_small_row(values: Array, _: np.random.Generator) -> Array:
    """Zeros in the row of the least magnitude, all-zero rows left out."""
    copy, rows = _rows(values)
    sizes = np.abs(np.nan_to_num(widened(rows), nan=np.inf)).max(axis=1)
    rows[int(np.argmin(np.where(sizes > 0, sizes, np.inf)))] = 0
    return copy


def _transposed(values: Array, _: np.random.Generator) -> Array | None:
    return np.swapaxes(values, -1, -2).reshape(values.shape) if values.ndim > 1 else None


def _swapped(axis: int, values: Array, _: np.random.Generator) -> Array | None:
    """Adjacent elements along an axis exchanged, two by two."""
    if axis >= values.ndim or values.shape[axis] < 2:
        return None
    order = np.arange(values.shape[axis] // 2 * 2).reshape(-1, 2)[:, ::-1].reshape(-1)
    odd_one = np.arange(order.size, values.shape[axis])
    return np.take(values, np.concatenate([order, odd_one]), axis)


def _shifted(axis: int, values: Array, _: np.random.Generator) -> Array | None:
    if axis >= values.ndim or values.shape[axis] < 2:
        return None
    return np.roll(values, 1, axis)


def _clipped(axis: int, values: Array, _: np.random.Generator, *, end: int) -> Array | None:
    """The first (`end` 0) or last (-1) element along an axis replaced by the one beside it."""
    if axis >= values.ndim or values.shape[axis] < 2:
        return None
    lines = np.moveaxis(values.copy(), axis, 0)
    lines[end] = lines[1 if end == 0 else -2]
    return np.moveaxis(lines, 0, axis)


MISTAKES: dict[str, Mistake] = {
    "zeros": lambda values, _: np.zeros_like(values),
    "its mean everywhere": lambda values, _: _full(values, _mean(values)),
    "its first half only": partial(_halved, keep_first=True),
    "its last half only": partial(_halved, keep_first=False),
    f"one block of {BLOCK} only": partial(_in_block, keep_block=True),
    f"one block of {BLOCK} missing": partial(_in_block, keep_block=False),
    "its smallest row left at zero": _without_small_row,
    "its tail left unwritten": _without_tail,
    "a maximum that starts at 0": partial(_limited, low=0.0, high=1.0),
    "a minimum that starts at 0": partial(_limited, low=-1.0, high=0.0),
    "saturated values": partial(_limited, low=-0.5, high=0.5),
    "absolute values": lambda values, _: np.abs(widened(values)),
    "the opposite sign": lambda values, _: -widened(values),
    "rows and columns exchanged": _transposed,
}
# Mistakes along one axis of an output.
ALONG: dict[str, Callable[[int, Array, np.random.Generator], Array | None]] = {
    "neighbours swapped": _swapped,
    "a shift by one": _shifted,
    "the first element clipped": partial(_clipped, end=0),
    "the last element clipped": partial(_clipped, end=-1),
}
