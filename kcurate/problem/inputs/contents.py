"""The initial contents of buffers: seeded, from the generators named in the problem; device-independent.

The same seed gives the same values everywhere: each buffer has its own stream (seed and name). `variation`
re-draws the floating-point kinds from another distribution on the same range; indices, flags and structure
stay the same. A variation may end in a change, which spoils the values for a negative control:
`structured/narrow`, `nominal/hole:x` (`kcurate.problem.inputs.spoiled`). `integers-high` varies the
integers alone. `literals:7;0.5` are nominal values with these numbers, and those beside them, at secret
places. Not covered: the generators (`kcurate.problem.inputs.generators`).
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
from kcurate.problem.inputs import generators, linked, matrices, meshes, suffixes
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
REGISTERED = (addresses, linked, matrices, meshes, suffixes)
VARIATIONS = ("nominal", *SHAPES, "wide", "structured", "literals")
# How many terms of an accumulation `structured` inputs leave large. The partial sums then stay below 2**12
# times such a term, where adding it in float32 drops no more bits than tf32 does, and so rounds without a
# bias in any order; a random walk of 2**12 roundings is 16 unit roundoffs.
# In longer sums of other inputs no values are `rounded_down`, since adding them would round them so too.
KEPT_TERMS = 1 << 12
# Of integers, those whose counts and sums reach further than any that are drawn nominally.
OF_INTEGERS, LARGE = "integers-", ("high", "alike")
# What inputs that hold literals of a side's text may promise: it is true of all values in their range.
KEPT_IN_RANGE = {"finite", "positive", "nonnegative", "nonzero", "varied"}
# The share of an input's elements that are literals at most, and at least; and of the largest value the least
# literal beside zero: a denormal number is no fair input.
MOST_LITERALS, LEAST_LITERALS, SMALLEST_LITERAL = 1 / 4, 1 / 16, 2.0**-12
# Of an integer parameter; no dtype holds more.
MAX_INTEGER = 1 << 64
__all__ = [
    "GENERATORS", "PARAMETERS", "VARIATIONS", "check_fit", "check_init", "generate", "integer_variations",
    "make", "most_terms", "recipes", "takes_literals", "thinned", "variations", "varies",
]  # fmt: skip


def check_init(how: Init, sizes: Mapping[str, int]) -> None:
    """Check that a generator exists and its parameters can be evaluated; makes no values.

    Raises:
        ProblemError: an unknown kind or parameter, a missing one, or one of the wrong type.
    """
    if how.kind not in GENERATORS:
        raise ProblemError(f"unknown init {how.kind!r}", hint=f"one of {', '.join(sorted(GENERATORS))}")
    known = PARAMETERS[how.kind]
    for name in how.params:
        if name not in known:
            takes = ", ".join(known) or "no parameters"
            raise ProblemError(f"init {how.kind} has no parameter {name!r}", hint=f"it takes {takes}")
    for name, takes_what in known.items():
        if name not in how.params:
            if takes_what in (NEEDED, PATH, WORDS):
                raise ProblemError(f"init {how.kind} needs the parameter {name!r}")
            continue
        _check_value(f"init {how.kind}: {name}", takes_what, how.params[name], sizes)


def check_fit(buffer: Buffer, sizes: Mapping[str, int]) -> None:
    """Check that a generator can fill its buffer at these sizes; makes no values.

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
        made = rows + 1 if how.kind == "csr_offsets" else entries
        if made != count:
            raise ProblemError(f"init {how.kind} gives {made} elements, the shape has {count}")


def _check_value(what: str, takes: Parameter, value: int | float | str, sizes: Mapping[str, int]) -> None:
    if takes in (TEXT, PATH, WORDS):
        if not isinstance(value, str):
            raise ProblemError(f"{what} must be text, not {value!r}")
    elif isinstance(value, bool):
        raise ProblemError(f"{what} must be a number, not {value!r}")
    elif isinstance(value, str):
        evaluate(value, sizes)
    elif isinstance(value, int) and abs(value) > MAX_INTEGER:
        raise ProblemError(f"{what} must be at most 2^64 either way")
    elif not math.isfinite(value):
        raise ProblemError(f"{what} must be a finite number, not {value!r}")
    elif takes is not REAL and int(value) != value:
        raise ProblemError(f"{what} must be an integer, not {value!r}")


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
    """The initial contents of one buffer: its shape, its dtype, C order; the last two as in `Draw`.

    Raises:
        ProblemError: an unknown kind, a missing or invalid parameter, or a shape that does not fit.
    """
    return _shaped(buffer, sizes, _made(name, buffer, sizes, seed, variation, density, rounded_down))


def _made(
    name: str,
    buffer: Buffer,
    sizes: Mapping[str, int],
    seed: int,
    variation: str,
    density: float,
    rounded_down: bool = True,
) -> Array | Recipe:
    """What the generator gives for one buffer."""
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
    made = GENERATORS[how.kind](draw)
    count = made.count if isinstance(made, Recipe) else made.size
    if count != draw.count:
        raise ProblemError(f"init {how.kind} gives {count} elements, the shape has {draw.count}", where=name)
    return made


def _shaped(buffer: Buffer, sizes: Mapping[str, int], made: Array | Recipe) -> Array:
    values = array_of(made).reshape(outputs.shape(buffer, sizes))
    return np.ascontiguousarray(values.astype(numpy_dtype(buffer.dtype), copy=False))


def generate(
    problem: Problem, side: Side | None, sizes: Mapping[str, int], seed: int, variation: str = "nominal"
) -> dict[str, Array]:
    """The initial contents of every buffer with role `in` or `inout`, by name.

    `side` None: only the problem's own buffers. The same seed gives the same values for either side.
    """
    made, spoiled = recipes(problem, side, sizes, seed, variation)
    buffers = _buffers(problem, side)
    values = {name: _shaped(buffers[name], sizes, one) for name, one in made.items()}
    for name, array in values.items():
        values[name] = spoiled.apply(name, array, buffers[name].dtype)
    return values


def recipes(
    problem: Problem, side: Side | None, sizes: Mapping[str, int], seed: int, variation: str = "nominal"
) -> tuple[dict[str, Array | Recipe], Spoiled]:
    """As `generate`, but what a device can make as recipes, and what then happens to the values.

    Arrays have the buffer's shape and dtype.
    """
    buffers = _buffers(problem, side)
    kind, _, change = variation.partition("/")
    kind, _, literals = kind.partition(":")
    terms = most_terms(problem, sizes)
    found: dict[str, Array | Recipe] = {}
    for name, buffer in buffers.items():
        if buffer.role in ("in", "inout"):
            own = kind if not kind.startswith(OF_INTEGERS) else _of_integers(buffer, kind)
            made = _made(name, buffer, sizes, seed, own, _density(buffer, sizes, terms), terms <= KEPT_TERMS)
            keep = isinstance(made, Recipe) and made.on_device and not literals
            found[name] = made if keep else _shaped(buffer, sizes, made)
            if literals and takes_literals(buffer):
                rng = np.random.default_rng([seed, zlib.crc32(name.encode()), zlib.crc32(b"literals")])
                _plant(np.asarray(found[name]), buffer.dtype, literals, rng)
    counts = {name: outputs.elements(buffers[name], sizes) for name in found}
    return found, Spoiled.of(change, counts, seed)


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
    """The variations in which any input has other values, `nominal` first."""
    known = {name for buffer in problem.buffers.values() for name in _variations(buffer)}
    return tuple(name for name in VARIATIONS if name == "nominal" or name in known)


def _variations(buffer: Buffer) -> tuple[str, ...]:
    if buffer.role not in ("in", "inout") or buffer.init is None:
        return ()
    return generators.variations(buffer.init.kind, buffer.dtype, buffer.promises)


def integer_variations(problem: Problem) -> tuple[str, ...]:
    """The variations of integers alone whose counts and sums are large, for sizes where all is long."""
    named = [f"{OF_INTEGERS}{name}" for name in LARGE]
    buffers = problem.buffers.values()
    return tuple(name for name in named if any(_of_integers(buffer, name) != "nominal" for buffer in buffers))


def _of_integers(buffer: Buffer, variation: str) -> str:
    """The variation that a buffer has in one of integers alone."""
    own = variation.removeprefix(OF_INTEGERS)
    drawn = buffer.init is not None and buffer.init.kind == "integers" and not is_float(buffer.dtype)
    return own if drawn and own in _variations(buffer) else "nominal"


def takes_literals(buffer: Buffer) -> bool:
    """Whether any value in an input's range is valid at any place."""
    how = buffer.init
    drawn = (
        buffer.role in ("in", "inout") and how is not None and how.kind in ("uniform", "normal", "integers")
    )
    return drawn and buffer.dtype != "bool" and KEPT_IN_RANGE.issuperset(buffer.promises)


def _plant(values: Array, dtype: str, literals: str, rng: np.random.Generator) -> None:
    """Put the literals that lie between the least and the largest of all values at random places."""
    flat = values.reshape(-1)
    wanted = [float(text) if set(text) & set(".einf") else int(text) for text in literals.split(";")]
    near = _near_reals(wanted, flat.dtype) if is_float(dtype) else _near_integers(wanted, flat.dtype)
    inside = (near >= flat.min()) & (near <= flat.max())
    if is_float(dtype):
        sizes, largest = np.abs(near.astype(np.float64)), float(np.abs(flat).max())
        inside &= (sizes == 0) | (sizes >= SMALLEST_LITERAL * largest)
    near = rng.permutation(near[inside])
    count = min(int(flat.size * MOST_LITERALS), max(near.size, int(flat.size * LEAST_LITERALS)))
    if near.size:
        flat[rng.choice(flat.size, count, replace=False)] = np.resize(near, count)


def _near_integers(wanted: Sequence[int | float], dtype: np.dtype[Any]) -> Array:
    """Whole numbers, and those beside them, of either sign, that a type holds."""
    held, whole = np.iinfo(dtype), {int(value) for value in wanted if value == int(value)}
    near = {sign * value + step for value in whole for sign in (1, -1) for step in (-1, 0, 1)}
    return np.array(sorted(value for value in near if held.min <= value <= held.max), dtype)


def _near_reals(wanted: Sequence[int | float], dtype: np.dtype[Any]) -> Array:
    """Numbers, those that integers are the bits of, and those beside them, of either sign."""
    bits = np.dtype(f"u{dtype.itemsize}")
    with np.errstate(over="ignore"):
        numbers = np.array([float(value) for value in wanted]).astype(dtype).view(bits)
    mask = (1 << 8 * dtype.itemsize) - 1
    patterns = np.array([value for value in wanted if isinstance(value, int) and 0 <= value <= mask], bits)
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
    """The density of a buffer's `structured` values; 1 if it is too small to hold what is summed."""
    count = outputs.elements(buffer, sizes)
    return min(1.0, KEPT_TERMS / terms) if count >= terms > 0 else 1.0


def _varied(buffer: Buffer) -> bool:
    how = buffer.init
    inside = buffer.role in ("in", "inout") and is_float(buffer.dtype)
    return inside and how is not None and how.kind in ("uniform", "normal")


def _has_zero(buffer: Buffer, sizes: Mapping[str, int]) -> bool:
    """Whether zero is in the range of a `uniform` buffer; that of a `normal` one reaches three deviations."""
    how = buffer.init or Init("zeros")

    def real(name: str, default: float) -> float:
        value = how.params.get(name, default)
        return float(evaluate(value, sizes)) if isinstance(value, str) else float(value)

    if how.kind == "normal":
        return abs(real("mean", 0.0)) <= 3 * real("std", 1.0)
    return real("low", 0.0) <= 0 < real("high", 1.0)
