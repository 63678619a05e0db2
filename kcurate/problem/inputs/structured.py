"""Generators for structured data: formulas over the index, arrays of records, waves, matrices, meshes.

They make the indices, tables and structs that a kernel needs for realistic work, and matrices with properties
that a kernel may exploit: symmetry, triangles, dominant diagonals, rows that sum to one. Not covered: values
drawn independently (`kcurate.problem.inputs.generators`), buffers that belong together
(`kcurate.problem.inputs.linked`).
"""

from __future__ import annotations

import re
from dataclasses import replace
from functools import reduce
from typing import Any

import numpy as np

from kcurate.errors import ProblemError
from kcurate.problem.dtypes import numpy_dtype
from kcurate.problem.expressions import compiled, language
from kcurate.problem.inputs.draws import PARAMETERS, REAL, TEXT, WORDS, Array, Draw, array_of, generator
from kcurate.problem.inputs.generators import GENERATORS

__all__ = ["GENERATORS"]

# A formula is evaluated for this many elements at a time.
CHUNK = 1 << 18
_FIELD = re.compile(r"(\w+)(?:\*(\d+))?\s+(\w+)((?:\s+\w+=[^\s;]+)*)")


def _divisor(b: Any) -> Any:
    if not np.all(b):
        raise ProblemError("division by zero")
    return b


def _log2(a: Any) -> Any:
    if np.any(np.asarray(a) < 1):
        raise ProblemError("log2 of a number below one")
    return np.frexp(np.asarray(a, np.float64))[1].astype(np.int64) - 1


def _pow2(a: Any) -> Any:
    if np.any((np.asarray(a) < 0) | (np.asarray(a) > 61)):
        raise ProblemError("pow2 of a number outside 0..61")
    return np.left_shift(np.int64(1), a)


def _least(*values: Any) -> Any:
    return reduce(np.minimum, values)


def _most(*values: Any) -> Any:
    return reduce(np.maximum, values)


# The expression language over whole arrays of int64.
_LANGUAGE = language(_least, _most, _log2, _pow2, _divisor)


@generator(value=WORDS, scale=REAL)
def formula(draw: Draw) -> Array:
    """`value`, an expression over the sizes, `i` (the element's index) and `i0`, `i1`, ... (its index along
    each axis), times `scale` (default 1)."""
    node = compiled(str(draw.params["value"]), *_LANGUAGE)
    scale = draw.real("scale", 1.0)
    values = np.empty(draw.count, np.int64 if scale == 1.0 else np.float64)
    for start in range(0, draw.count, CHUNK):
        i = np.arange(start, min(start + CHUNK, draw.count), dtype=np.int64)
        places = np.unravel_index(i, draw.shape)
        names: dict[str, Any] = {**draw.sizes, "i": i}
        names |= {f"i{axis}": place.astype(np.int64) for axis, place in enumerate(places)}
        values[start : start + i.size] = node(names) if scale == 1.0 else scale * node(names)
    return values


@generator(fields=WORDS)
def records(draw: Draw) -> Array:
    """Structs in C layout, one per row of the last axis, as bytes (`uint8`), or with members that
    all have the buffer's dtype. `fields`: "dtype kind parameter=value ..." for each member, separated by
    ";"; "dtype*count" for an array member."""
    element = numpy_dtype(draw.dtype)
    rows, width = draw.count // draw.shape[-1], draw.shape[-1] * element.itemsize
    out = np.zeros((rows, width), np.uint8)
    at, alignment = 0, 1
    for text in str(draw.params["fields"]).split(";"):
        kind, member = _member(draw, rows, text.strip())
        if draw.dtype not in ("uint8", member.dtype):
            raise ProblemError(f"a member of {member.dtype} in records of {draw.dtype}")
        dtype = numpy_dtype(member.dtype)
        at, alignment = -(-at // dtype.itemsize) * dtype.itemsize, max(alignment, dtype.itemsize)
        values = np.ascontiguousarray(array_of(GENERATORS[kind](member)).reshape(member.shape).astype(dtype))
        data = values.view(np.uint8).reshape(rows, -1)
        if at + data.shape[1] > width:
            raise ProblemError(f"the fields take more than {width} bytes")
        out[:, at : at + data.shape[1]] = data
        at += data.shape[1]
    if -(-at // alignment) * alignment != width:
        raise ProblemError(f"the fields take {-(-at // alignment) * alignment} bytes, not {width}")
    return out.view(element)


def _member(draw: Draw, rows: int, text: str) -> tuple[str, Draw]:
    match = _FIELD.fullmatch(text)
    if match is None or match[3] not in GENERATORS or match[3] in ("records", "file"):
        raise ProblemError(f"{text!r} is not a record field", hint="dtype kind parameter=value ...")
    params = {}
    for pair in match[4].split():
        name, value = pair.split("=", 1)
        if name not in PARAMETERS[match[3]]:
            raise ProblemError(f"init {match[3]} has no parameter {name!r}")
        params[name] = _value(value)
    shape = (rows, int(match[2] or 1))
    return match[3], replace(draw, shape=shape, dtype=match[1], params=params, variation="nominal")


def _value(text: str) -> int | float | str:
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text


@generator(period=REAL, phase=REAL, amplitude=REAL, growth=REAL)
def sine(draw: Draw) -> Array:
    """(`amplitude` + `growth` * row) * sin(2 pi (i / `period` + `phase`)) at index i of the last axis
    (default 1, 0, the axis' extent, 0); integers are truncated toward zero."""
    width = draw.shape[-1]
    rows = np.arange(draw.count // width)[:, None]
    height = draw.real("amplitude", 1.0) + draw.real("growth", 0.0) * rows
    turns = np.arange(width) / draw.real("period", width) + draw.real("phase", 0.0)
    return np.asarray(height * np.sin(2 * np.pi * turns))


@generator(low=REAL, high=REAL)
def dominant(draw: Draw) -> Array:
    """Square matrices in the last two axes, uniform from `low` to `high` (default -1, 1), diagonally
    dominant in rows and columns: elimination without pivoting is stable on them."""
    if len(draw.shape) < 2 or draw.shape[-1] != draw.shape[-2]:
        raise ProblemError("dominant needs a square matrix")
    low, high = draw.real("low", -1.0), draw.real("high", 1.0)
    values = low + (high - low) * draw.rng.random(draw.count, np.float32)
    matrices = values.reshape(-1, draw.shape[-2], draw.shape[-1])
    size = np.abs(matrices)
    place = np.arange(draw.shape[-1])
    matrices[:, place, place] = 1 + np.maximum(size.sum(axis=-1), size.sum(axis=-2))
    return matrices


def _uniform(draw: Draw, low: float, high: float) -> Array:
    values = draw.rng.random(draw.count, np.float32)
    values *= draw.real("high", high) - draw.real("low", low)
    values += draw.real("low", low)
    return values


def _squares(draw: Draw) -> Array:
    if len(draw.shape) < 2 or draw.shape[-1] != draw.shape[-2]:
        raise ProblemError(f"the last two extents of {draw.shape} are not equal")
    return _uniform(draw, -1.0, 1.0).reshape(-1, *draw.shape[-2:])


@generator(low=REAL, high=REAL)
def symmetric(draw: Draw) -> Array:
    """Square matrices, uniform from `low` to `high` (default -1, 1), each equal to its transpose."""
    upper = np.triu(_squares(draw))
    return np.asarray(upper + np.swapaxes(np.triu(upper, 1), 1, 2))


@generator(low=REAL, high=REAL, part=TEXT)
def triangle(draw: Draw) -> Array:
    """Square matrices, uniform in the triangle `part` (upper, the default, or lower) and zero elsewhere."""
    part = str(draw.params.get("part", "upper"))
    if part not in ("upper", "lower"):
        raise ProblemError(f"unknown part {part!r}", hint="upper or lower")
    values = _squares(draw)
    return np.asarray(np.triu(values) if part == "upper" else np.tril(values))


@generator()
def signs(draw: Draw) -> Array:
    """-1 or 1."""
    return 2 * draw.rng.integers(0, 2, draw.count, np.int8) - 1


@generator(low=REAL, high=REAL)
def rescaled(draw: Draw) -> Array:
    """Uniform from `low` to `high` (default 0, 1), scaled by one random factor between 0 and 1."""
    factor = draw.rng.random(dtype=np.float32)
    return np.asarray(factor * _uniform(draw, 0.0, 1.0))


@generator()
def shares(draw: Draw) -> Array:
    """Positive values that sum to one along the last axis: the softmax of `rescaled` values."""
    rows = rescaled(draw).reshape(-1, draw.shape[-1])
    powers = np.exp(rows)
    return np.asarray(powers / powers.sum(axis=1, keepdims=True))


@generator()
def mesh_neighbours(draw: Draw) -> Array:
    """The neighbours of each cell, (faces, cells): close in number; -1 at an inner wall (two of a hundred
    faces), -2 at the outer boundary."""
    faces, cells = draw.shape
    near = np.array([-1, 1, -max(1, int(cells**0.5)), max(1, int(cells**0.5))])
    jitter = draw.rng.integers(-2, 3, (faces, cells))
    neighbours = np.arange(cells)[None, :] + near[np.arange(faces) % near.size, None] + jitter
    neighbours = np.where((neighbours < 0) | (neighbours >= cells), -2, neighbours)
    return np.where(draw.rng.random((faces, cells)) < 0.02, -1, neighbours)


@generator(mach=REAL)
def euler_state(draw: Draw) -> Array:
    """Density, three momenta and energy of a gas in each cell, (5, cells): a flow of `mach` (default 1.2)
    along the first axis, disturbed; pressures and densities are positive."""
    _, cells = draw.shape
    density = 1.4 * np.exp(0.1 * draw.rng.standard_normal(cells))
    velocity = 0.1 * draw.rng.standard_normal((3, cells))
    velocity[0] += draw.real("mach", 1.2)
    pressure = np.exp(0.1 * draw.rng.standard_normal(cells))
    energy = pressure / 0.4 + 0.5 * density * (velocity**2).sum(axis=0)
    return np.concatenate([density[None], density * velocity, energy[None]])


@generator(values=WORDS, spread=REAL)
def around(draw: Draw) -> Array:
    """The numbers of `values`, repeated along the last axis, each with a relative normal error of `spread`
    (default 0.05); zeros stay zero."""
    try:
        numbers = np.array([float(word) for word in str(draw.params["values"]).split()])
    except ValueError as error:
        raise ProblemError("values must be numbers separated by spaces") from error
    if not numbers.size:
        raise ProblemError("around needs at least one value")
    row = np.resize(numbers, draw.shape[-1])
    off = draw.real("spread", 0.05) * draw.rng.standard_normal(draw.shape)
    return np.asarray(row * (1 + off))
