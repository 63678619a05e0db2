"""The initial contents of buffers: seeded, from the generators named in the problem; device-independent.

The same seed gives the same values everywhere: each buffer has its own random stream, seeded by the seed and
its name. A `variation` re-draws floating-point values from another distribution on the same range; indices,
flags and structure stay the same. Forms of a variation: `structured/narrow` and `nominal/hole:x` also spoil
the values for a negative control (`kcurate.problem.inputs.spoiled`); `integers-high` varies only integers;
`literals:7;0.5` are nominal values with these numbers and their neighbours put at secret places. Not covered:
the generators (`kcurate.problem.inputs.generators`).
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from kcurate.errors import ProblemError, at
from kcurate.problem import addresses, outputs
from kcurate.problem.dtypes import is_float, numpy_dtype
from kcurate.problem.expressions import evaluate
from kcurate.problem.inputs import generators, linked, suffixes
from kcurate.problem.inputs.counter_based import SHAPES, Recipe
from kcurate.problem.inputs.draws import (
    NEEDED,
    PARAMETERS,
    PATH,
    REAL,
    TEXT,
    WORDS,
    Array,
    Draw,
    Parameter,
    array_of,
)
from kcurate.problem.inputs.spoiled import Spoiled
from kcurate.problem.inputs.structured import GENERATORS
from kcurate.records import Buffer, Init, Problem, Side

# Imported to register their generators.
REGISTERED = (addresses, linked, suffixes)
VARIATIONS = ("nominal", *SHAPES, "wide", "structured", "literals")
# How many terms of a sum `structured` inputs leave large. Partial sums then stay below 2**12 times such a
# term. Adding the term to them in float32 drops no more bits than tf32 does, so it rounds without bias in any
# order; a random walk of 2**12 roundings is 16 unit roundoffs. In longer sums of other inputs no values are
# `rounded_down`: each addition would round in the same direction.
KEPT_TERMS = 1 << 12
# Variations of integers whose counts and sums exceed those of any nominal input.
OF_INTEGERS, LARGE = "integers-", ("high", "alike")
# Promises that hold for every value in an input's range, so that planted literals cannot break them.
KEPT_IN_RANGE = {"finite", "positive", "nonnegative", "nonzero", "varied"}
# The largest and smallest share of an input's elements that are replaced by literals. Literals smaller than
# `SMALLEST_LITERAL` of the largest value are left out, except zero: a denormal number is not a fair input.
MOST_LITERALS, LEAST_LITERALS, SMALLEST_LITERAL = 1 / 4, 1 / 16, 2.0**-12
# The largest integer parameter; no dtype holds more.
MAX_INTEGER = 1 << 64
__all__ = [
    "GENERATORS", "PARAMETERS", "VARIATIONS", "check_fit", "check_init", "generate", "integer_variations",
    "make", "most_terms", "recipes", "takes_literals", "thinned", "variations", "varies",
]  # fmt: skip


def check_init(how: Init, sizes: Mapping[str, int]) -> None:
    """Check that a generator exists and its parameters can be evaluated, without running it.

    Raises:
        ProblemError: an unknown kind or parameter, a missing one, or one of the wrong type.
    """
    if how.kind not in GENERATORS:
        raise ProblemError(f"unknown init {how.kind!r}", hint=f"one of {', '.join(sorted(GENERATORS))}")
    parameters = PARAMETERS[how.kind]
    for name in how.params:
        if name not in parameters:
            takes = ", ".join(parameters) or "no parameters"
            raise ProblemError(f"init {how.kind} has no parameter {name!r}", hint=f"it takes {takes}")
    for name, kind in parameters.items():
        if name not in how.params:
            if kind in (NEEDED, PATH, WORDS):
                raise ProblemError(f"init {how.kind} needs the parameter {name!r}")
            continue
        _check_value(f"init {how.kind}: {name}", kind, how.params[name], sizes)


def check_fit(buffer: Buffer, sizes: Mapping[str, int]) -> None:
    """Check that a generator can fill its buffer at these sizes, without running it.

    Raises:
        ProblemError: an empty range, a matrix too small for its entries, a shape of another size.
    """
    how = buffer.init or Init("zeros")
    count = outputs.elements(buffer, sizes)

    def number(name: str, default: int = 0) -> int:
        value = how.params.get(name, default)
        return evaluate(value, sizes) if isinstance(value, str) else int(value)

    if how.kind == "integers" and number("high") <= number("low"):
        raise ProblemError(f"init integers needs low < high, not {number('low')} and {number('high')}")
    if how.kind in ("csr_offsets", "csr_columns"):
        rows, entries = number("rows"), number("nnz")
        cols = number("cols", rows)
        if rows < 1 or not 0 <= entries <= rows * cols:
            raise ProblemError(f"{entries} entries do not fit {rows} rows of {cols} columns")
        makes = rows + 1 if how.kind == "csr_offsets" else entries
        if makes != count:
            raise ProblemError(f"init {how.kind} gives {makes} elements, the shape has {count}")


def _check_value(name: str, takes: Parameter, value: int | float | str, sizes: Mapping[str, int]) -> None:
    if takes in (TEXT, PATH, WORDS):
        if not isinstance(value, str):
            raise ProblemError(f"{name} must be text, not {value!r}")
    elif isinstance(value, bool):
        raise ProblemError(f"{name} must be a number, not {value!r}")
    elif isinstance(value, str):
        evaluate(value, sizes)
    elif isinstance(value, int) and abs(value) > MAX_INTEGER:
        raise ProblemError(f"{name} must be at most 2^64 either way")
    elif not math.isfinite(value):
        raise ProblemError(f"{name} must be a finite number, not {value!r}")
    elif takes is not REAL and int(value) != value:
        raise ProblemError(f"{name} must be an integer, not {value!r}")


def make(
    name: str,
    buffer: Buffer,
    sizes: Mapping[str, int],
    seed: int,
    variation: str = "nominal",
    density: float = 1.0,
    *,
    rounded_down: bool = True,
) -> Array:
    """The initial contents of one buffer, with its shape and dtype, in C order.

    `density` and `rounded_down`: see `Draw`.

    Raises:
        ProblemError: an unknown kind, a missing or invalid parameter, or a shape that does not fit.
    """
    return _shaped(buffer, sizes, _generated(name, buffer, sizes, seed, variation, density, rounded_down))


def _generated(
    name: str,
    buffer: Buffer,
    sizes: Mapping[str, int],
    seed: int,
    variation: str,
    density: float,
    rounded_down: bool = True,
) -> Array | Recipe:
    """What the buffer's generator returns."""
    shape = outputs.shape(buffer, sizes)
    how = buffer.init or Init("zeros")
    if variation not in VARIATIONS:
        raise ProblemError(f"unknown variation {variation!r}", hint=f"one of {', '.join(VARIATIONS)}")
    if variation not in _variations(buffer):
        variation = "nominal"
    with at(name):
        check_init(how, sizes)
    rng = np.random.default_rng([seed, zlib.crc32(name.encode())])
    draw = Draw(
        rng, shape, buffer.dtype, how.params, sizes, seed, variation, density, rounded_down, buffer.promises
    )
    values = GENERATORS[how.kind](draw)
    count = values.count if isinstance(values, Recipe) else values.size
    if count != draw.count:
        raise ProblemError(f"init {how.kind} gives {count} elements, the shape has {draw.count}", where=name)
    return values


def _shaped(buffer: Buffer, sizes: Mapping[str, int], values: Array | Recipe) -> Array:
    array = array_of(values).reshape(outputs.shape(buffer, sizes))
    return np.ascontiguousarray(array.astype(numpy_dtype(buffer.dtype), copy=False))


def generate(
    problem: Problem, side: Side | None, sizes: Mapping[str, int], seed: int, variation: str = "nominal"
) -> dict[str, Array]:
    """The initial contents of every buffer with role `in` or `inout`, by name.

    `side` None: only the problem's own buffers. The same seed gives the same values for either side.
    """
    initial, spoiled = recipes(problem, side, sizes, seed, variation)
    buffers = _buffers(problem, side)
    values = {name: _shaped(buffers[name], sizes, contents) for name, contents in initial.items()}
    for name, array in values.items():
        values[name] = spoiled.apply(name, array, buffers[name].dtype)
    return values


def recipes(
    problem: Problem, side: Side | None, sizes: Mapping[str, int], seed: int, variation: str = "nominal"
) -> tuple[dict[str, Array | Recipe], Spoiled]:
    """As `generate`, but with recipes for what a device can make, and the change to apply to all values.

    Arrays have the buffer's shape and dtype.
    """
    buffers = _buffers(problem, side)
    kind, _, change = variation.partition("/")
    kind, _, literals = kind.partition(":")
    terms = most_terms(problem, sizes)
    initial: dict[str, Array | Recipe] = {}
    for name, buffer in buffers.items():
        if buffer.role in ("in", "inout"):
            variant = kind if not kind.startswith(OF_INTEGERS) else _of_integers(buffer, kind)
            values = _generated(
                name, buffer, sizes, seed, variant, _density(buffer, sizes, terms), terms <= KEPT_TERMS
            )
            keep = isinstance(values, Recipe) and values.on_device and not literals
            initial[name] = values if keep else _shaped(buffer, sizes, values)
            if literals and takes_literals(buffer):
                rng = np.random.default_rng([seed, zlib.crc32(name.encode()), zlib.crc32(b"literals")])
                _plant(np.asarray(initial[name]), buffer.dtype, literals, rng)
    counts = {name: outputs.elements(buffers[name], sizes) for name in initial}
    return initial, Spoiled.of(change, counts, seed)


def _buffers(problem: Problem, side: Side | None) -> dict[str, Buffer]:
    return {**problem.buffers, **(side.buffers if side else {})}


def most_terms(problem: Problem, sizes: Mapping[str, int]) -> int:
    """The most terms that one element of any floating output accumulates."""
    return max(
        (
            evaluate(buffer.tolerance.terms, sizes)
            for buffer in problem.buffers.values()
            if buffer.tolerance is not None and is_float(buffer.dtype)
        ),
        default=1,
    )


def variations(problem: Problem) -> tuple[str, ...]:
    """The variations that change any input, `nominal` first."""
    varied = {name for buffer in problem.buffers.values() for name in _variations(buffer)}
    return tuple(name for name in VARIATIONS if name == "nominal" or name in varied)


def _variations(buffer: Buffer) -> tuple[str, ...]:
    if buffer.role not in ("in", "inout") or buffer.init is None:
        return ()
    return generators.variations(buffer.init.kind, buffer.dtype, buffer.promises)


def integer_variations(problem: Problem) -> tuple[str, ...]:
    """The variations of only integers that make counts and sums large; for large sizes."""
    named = [f"{OF_INTEGERS}{name}" for name in LARGE]
    buffers = problem.buffers.values()
    return tuple(name for name in named if any(_of_integers(buffer, name) != "nominal" for buffer in buffers))


def _of_integers(buffer: Buffer, variation: str) -> str:
    """The variation of one buffer in a variation of only integers."""
    base = variation.removeprefix(OF_INTEGERS)
    drawn = buffer.init is not None and buffer.init.kind == "integers" and not is_float(buffer.dtype)
    return base if drawn and base in _variations(buffer) else "nominal"


def takes_literals(buffer: Buffer) -> bool:
    """Whether every value in an input's range is valid in every element."""
    how = buffer.init
    drawn = (
        buffer.role in ("in", "inout") and how is not None and how.kind in ("uniform", "normal", "integers")
    )
    return drawn and buffer.dtype != "bool" and KEPT_IN_RANGE.issuperset(buffer.promises)


def _plant(values: Array, dtype: str, literals: str, rng: np.random.Generator) -> None:
    """Replace random elements by literals, and their neighbours, that lie in the range of the values."""
    flat = values.reshape(-1)
    numbers = [float(text) if set(text) & set(".einf") else int(text) for text in literals.split(";")]
    near = _near_reals(numbers, flat.dtype) if is_float(dtype) else _near_integers(numbers, flat.dtype)
    inside = (near >= flat.min()) & (near <= flat.max())
    if is_float(dtype):
        sizes, largest = np.abs(near.astype(np.float64)), float(np.abs(flat).max())
        inside &= (sizes == 0) | (sizes >= SMALLEST_LITERAL * largest)
    near = rng.permutation(near[inside])
    count = min(int(flat.size * MOST_LITERALS), max(near.size, int(flat.size * LEAST_LITERALS)))
    if near.size:
        flat[rng.choice(flat.size, count, replace=False)] = np.resize(near, count)


def _near_integers(numbers: Sequence[int | float], dtype: np.dtype[Any]) -> Array:
    """The whole numbers among `numbers` and their neighbours, of either sign, that the type holds."""
    held, whole = np.iinfo(dtype), {int(value) for value in numbers if value == int(value)}
    near = {sign * value + step for value in whole for sign in (1, -1) for step in (-1, 0, 1)}
    return np.array(sorted(value for value in near if held.min <= value <= held.max), dtype)


def _near_reals(literals: Sequence[int | float], dtype: np.dtype[Any]) -> Array:
    """The literals and the floats whose bits are these integers, with their neighbours, of either sign."""
    bits = np.dtype(f"u{dtype.itemsize}")
    with np.errstate(over="ignore"):
        numbers = np.array([float(value) for value in literals]).astype(dtype).view(bits)
    mask = (1 << 8 * dtype.itemsize) - 1
    patterns = np.array([value for value in literals if isinstance(value, int) and 0 <= value <= mask], bits)
    exact = np.concatenate([numbers, patterns])
    steps = bits.type(1)
    near = np.unique(np.concatenate([exact - steps, exact, exact + steps]))
    either = np.concatenate([near, near ^ bits.type(mask - (mask >> 1))]).view(dtype)
    return either[np.isfinite(either.astype(np.float64))]


def varies(problem: Problem) -> bool:
    """Whether any input has `structured` values."""
    return "structured" in variations(problem)


def thinned(problem: Problem, sizes: Mapping[str, int]) -> bool:
    """Whether `structured` inputs at these sizes leave only about `KEPT_TERMS` terms large."""
    terms = most_terms(problem, sizes)
    return any(
        _density(buffer, sizes, terms) < 1.0 and _varied(buffer) and _has_zero(buffer, sizes)
        for buffer in problem.buffers.values()
    )


def _density(buffer: Buffer, sizes: Mapping[str, int], terms: int) -> float:
    """The density of a buffer's `structured` values; 1 if it has fewer elements than a sum has terms."""
    count = outputs.elements(buffer, sizes)
    return min(1.0, KEPT_TERMS / terms) if count >= terms > 0 else 1.0


def _varied(buffer: Buffer) -> bool:
    how = buffer.init
    inside = buffer.role in ("in", "inout") and is_float(buffer.dtype)
    return inside and how is not None and how.kind in ("uniform", "normal")


def _has_zero(buffer: Buffer, sizes: Mapping[str, int]) -> bool:
    """Whether zero is in the range of a buffer; that of a `normal` one is three standard deviations wide."""
    how = buffer.init or Init("zeros")

    def real(name: str, default: float) -> float:
        value = how.params.get(name, default)
        return float(evaluate(value, sizes)) if isinstance(value, str) else float(value)

    if how.kind == "normal":
        return abs(real("mean", 0.0)) <= 3 * real("std", 1.0)
    return real("low", 0.0) <= 0 < real("high", 1.0)
