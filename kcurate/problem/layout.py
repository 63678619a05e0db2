"""Converts logical arrays to a side's own layout and back: permuted axes, then padding. Host only."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from kcurate.problem.dtypes import numpy_dtype
from kcurate.problem.expressions import evaluate
from kcurate.problem.ops import BoundBuffer

Array = npt.NDArray[Any]


def _pads(buffer: BoundBuffer) -> list[tuple[int, int]]:
    view = buffer.view
    permute = (view.permute if view else None) or range(len(buffer.shape))
    inner = [buffer.shape[axis] for axis in permute]
    before = [evaluate(a, buffer.sizes) for a, _ in view.pad] if view and view.pad else [0] * len(inner)
    return [(b, p - e - b) for b, e, p in zip(before, inner, buffer.physical, strict=True)]


def to_physical(buffer: BoundBuffer, values: Array) -> Array:
    """The bytes that the side sees, as a C-ordered array of shape `buffer.physical`; padding is zero."""
    array = np.ascontiguousarray(values, numpy_dtype(buffer.record.dtype)).reshape(buffer.shape)
    if buffer.view is None:
        return array
    if buffer.view.permute is not None:
        array = array.transpose(buffer.view.permute)
    return np.ascontiguousarray(np.pad(array, _pads(buffer)))


def to_logical(buffer: BoundBuffer, data: npt.NDArray[np.uint8]) -> Array:
    """A side's data in its own layout, as the logical array of `buffer.shape`."""
    array = data.view(numpy_dtype(buffer.record.dtype)).reshape(buffer.physical)
    if buffer.view is None:
        return array
    inner = array[
        tuple(slice(a, extent - b) for extent, (a, b) in zip(array.shape, _pads(buffer), strict=True))
    ]
    if buffer.view.permute is not None:
        inner = inner.transpose(np.argsort(buffer.view.permute))
    return np.ascontiguousarray(inner)


def strides_of(buffer: BoundBuffer) -> tuple[int, tuple[int, ...]]:
    """The offset of the first element of the logical array, and its stride along each axis, in bytes.

    Both refer to the contents in the side's own layout.
    """
    steps = [buffer.itemsize]
    for extent in buffer.physical[:0:-1]:
        steps.insert(0, steps[0] * extent)
    base = sum(before * step for (before, _), step in zip(_pads(buffer), steps, strict=True))
    permute = (buffer.view.permute if buffer.view else None) or range(len(buffer.shape))
    logical = dict(zip(permute, steps, strict=True))
    return base, tuple(logical[axis] for axis in range(len(buffer.shape)))
