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
from collections.abc import Mapping

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
from kcurate.problem.inputs.planted import WHOLE, plant_extremes, plant_literals
from kcurate.problem.inputs.spoiled import Spoiled
from kcurate.problem.inputs.structured import GENERATORS
from kcurate.records import Buffer, Init, Problem, Side

# Imported to register their generators.
REGISTERED = (addresses, linked, suffixes)
VARIATIONS = ("nominal", *SHAPES, "wide", "extremes", "path", "structured", "literals")
# How many terms of an accumulation `structured` inputs leave large. The partial sums then stay below 2**12
# times such a term, where adding it in float32 drops no more bits than tf32 does, and so rounds without a
# bias in any order; a random walk of 2**12 roundings is 16 unit roundoffs.
# In longer sums of other inputs no values are `rounded_down`, since adding them would round them so too.
KEPT_TERMS = 1 << 12
# Of integers, those whose counts and sums reach further than any that are drawn nominally. Where all outputs
# are integers, such as counts and places, of all inputs; a largest element at the end has the largest place.
OF_INTEGERS, LARGE, OF_ALL = "integers-", ("high", "alike"), ("high", "alike", "ascending")
# The variation with the ends of each range, both zeros, and rows hardly different or tiny.
EXTREMES = "extremes"
# Kinds whose elements are drawn independently, or do not depend on their places.
EXCHANGEABLE = (
    "uniform", "normal", "integers", "lognormal", "mixed", "few_unique", "sparse", "text", "image",
)  # fmt: skip
# Of normal values, in deviations; the nominal ones hardly reach five.
FAR_DEVIATIONS = 6.0
# Of an integer parameter; no dtype holds more.
MAX_INTEGER = 1 << 64
__all__ = [
    "GENERATORS", "PARAMETERS", "VARIATIONS", "check_fit", "check_init", "exchangeable", "generate",
    "integer_variations", "make", "most_terms", "recipes", "takes_literals", "thinned", "variations",
    "varies",
]  # fmt: skip


def check_init(how: Init, sizes: Mapping[str, int]) -> None:
    """Check that a generator exists and its parameters can be evaluated; makes no values.

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
    for name, takes_what in parameters.items():
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
        elements = rows + 1 if how.kind == "csr_offsets" else entries
        if elements != count:
            raise ProblemError(f"init {how.kind} gives {elements} elements, the shape has {count}")


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
    """The values that the generator makes for one buffer."""
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
    if variation == EXTREMES and how.kind not in generators.OF_ROWS:
        values = _shaped(buffer, sizes, values)
        plant_extremes(values, buffer.dtype, _ends(draw, how.kind), buffer.promises, draw.stream("extremes"))
    count = values.count if isinstance(values, Recipe) else values.size
    if count != draw.count:
        raise ProblemError(f"init {how.kind} gives {count} elements, the shape has {draw.count}", where=name)
    return values


def _ends(draw: Draw, kind: str) -> tuple[float | None, float | None]:
    """The least and the largest value that are drawn in practice; None: use those of the values."""
    if kind == "integers":
        return draw.integer("low", 0), draw.integer("high") - 1
    if kind == "normal":
        mean, far = draw.real("mean", 0.0), FAR_DEVIATIONS * draw.real("std", 1.0)
        return mean - far, mean + far
    zero_is_drawn = not {"nonzero", "positive"} & set(draw.promises)
    return (draw.real("low", 0.0) if kind == "uniform" and zero_is_drawn else None), None


def _share_values(buffers: Mapping[str, Buffer], contents: dict[str, Array | Recipe], seed: int) -> None:
    """Give some elements of a buffer values of other buffers of its type that are in its range, so that
    values tie.

    Some get the other buffer's value at the same index, or (integers) the value that adds up with it to an
    end of the range; at the full range that sum has all bits set, so that a carry runs through all of them.
    """
    arrays = {name: values.reshape(-1) for name, values in contents.items() if isinstance(values, np.ndarray)}
    unshared = {name: values.copy() for name, values in arrays.items()}
    for name, values in arrays.items():
        if not takes_literals(buffers[name]) or not values.size:
            continue
        others = [
            unshared[other] for other in arrays if other != name and unshared[other].dtype == values.dtype
        ]
        shared = np.concatenate([values[:0], *others])
        shared = shared[(shared >= values.min()) & (shared <= values.max())]
        rng = np.random.default_rng([seed, zlib.crc32(name.encode()), zlib.crc32(b"shared")])
        indices = rng.integers(0, values.size, max(1, values.size // 16) if shared.size else 0)
        values[indices] = rng.choice(shared, indices.size) if shared.size else shared
        least, most = values.min(), values.max()
        for other in others:
            if other.size == values.size:
                indices = rng.integers(0, values.size, max(1, values.size // 16))
                partners = other[indices]
                if buffers[name].dtype in WHOLE:
                    partners = np.where(rng.random(indices.size) < 0.5, partners, least - partners + most)
                inside = (partners >= least) & (partners <= most)
                values[indices[inside]] = partners[inside]


def _shaped(buffer: Buffer, sizes: Mapping[str, int], content: Array | Recipe) -> Array:
    values = array_of(content).reshape(outputs.shape(buffer, sizes))
    return np.ascontiguousarray(values.astype(numpy_dtype(buffer.dtype), copy=False))


def generate(
    problem: Problem, side: Side | None, sizes: Mapping[str, int], seed: int, variation: str = "nominal"
) -> dict[str, Array]:
    """The initial contents of every buffer with role `in` or `inout`, by name.

    `side` None: only the problem's own buffers. The same seed gives the same values for either side.
    """
    contents, spoiled = recipes(problem, side, sizes, seed, variation)
    buffers = _buffers(problem, side)
    values = {name: _shaped(buffers[name], sizes, content) for name, content in contents.items()}
    for name, array in values.items():
        values[name] = spoiled.apply(name, array, buffers[name].dtype)
    return values


def recipes(
    problem: Problem, side: Side | None, sizes: Mapping[str, int], seed: int, variation: str = "nominal"
) -> tuple[dict[str, Array | Recipe], Spoiled]:
    """As `generate`, but with a recipe in place of the values for each buffer that a device can make, and the
    changes to apply to the values.

    Arrays have the buffer's shape and dtype.
    """
    buffers = _buffers(problem, side)
    kind, _, change = variation.partition("/")
    kind, _, literals = kind.partition(":")
    terms = most_terms(problem, sizes)
    contents: dict[str, Array | Recipe] = {}
    for name, buffer in buffers.items():
        if buffer.role in ("in", "inout"):
            own_kind = kind if not kind.startswith(OF_INTEGERS) else _of_integers(problem, buffer, kind)
            content = _generated(
                name, buffer, sizes, seed, own_kind, _density(buffer, sizes, terms), terms <= KEPT_TERMS
            )
            keep = isinstance(content, Recipe) and content.on_device and not literals and kind != EXTREMES
            contents[name] = content if keep else _shaped(buffer, sizes, content)
            if literals and takes_literals(buffer):
                rng = np.random.default_rng([seed, zlib.crc32(name.encode()), zlib.crc32(b"literals")])
                plant_literals(np.asarray(contents[name]), buffer.dtype, literals, rng)
    if kind == EXTREMES:  # not with a side's own buffers: both sides get the same inputs
        _share_values(buffers, {name: contents[name] for name in problem.buffers if name in contents}, seed)
    counts = {name: outputs.elements(buffers[name], sizes) for name in contents}
    return contents, Spoiled.of(change, counts, seed)


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
    """The variations in which at least one input has different values, `nominal` first."""
    names = {name for buffer in problem.buffers.values() for name in _variations(buffer)}
    return tuple(name for name in VARIATIONS if name == "nominal" or name in names)


def _variations(buffer: Buffer) -> tuple[str, ...]:
    if buffer.role not in ("in", "inout") or buffer.init is None:
        return ()
    return generators.variations(buffer.init.kind, buffer.dtype, buffer.promises)


def integer_variations(problem: Problem) -> tuple[str, ...]:
    """Variations of integers alone with large counts and sums, for sizes at which every extent is large."""
    named = [f"{OF_INTEGERS}{name}" for name in (OF_ALL if _all_integers(problem) else LARGE)]
    buffers = problem.buffers.values()
    return tuple(
        name for name in named if any(_of_integers(problem, buffer, name) != "nominal" for buffer in buffers)
    )


def _of_integers(problem: Problem, buffer: Buffer, variation: str) -> str:
    """The variation of one buffer in a variation of integers."""
    plain = variation.removeprefix(OF_INTEGERS)
    applies = not is_float(buffer.dtype) or _all_integers(problem)
    return plain if applies and plain in _variations(buffer) else "nominal"


def _all_integers(problem: Problem) -> bool:
    """Whether all outputs are integers."""
    written = [buffer for buffer in problem.buffers.values() if buffer.role in ("out", "inout")]
    return bool(written) and not any(is_float(buffer.dtype) for buffer in written)


def takes_literals(buffer: Buffer) -> bool:
    """Whether any value in an input's range is valid at any index."""
    drawn = buffer.init is not None and buffer.init.kind in ("uniform", "normal", "integers")
    return drawn and buffer.dtype != "bool" and exchangeable(buffer)


def exchangeable(buffer: Buffer) -> bool:
    """Whether the input's elements may be exchanged with one another."""
    drawn = buffer.role in ("in", "inout") and buffer.init is not None and buffer.init.kind in EXCHANGEABLE
    return drawn and generators.KEPT_IN_RANGE.issuperset(buffer.promises)


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
    """The density of a buffer's `structured` values; 1 if it has fewer elements than are summed."""
    count = outputs.elements(buffer, sizes)
    return min(1.0, KEPT_TERMS / terms) if count >= terms > 0 else 1.0


def _varied(buffer: Buffer) -> bool:
    how = buffer.init
    is_float_input = buffer.role in ("in", "inout") and is_float(buffer.dtype)
    return is_float_input and how is not None and how.kind in ("uniform", "normal")


def _has_zero(buffer: Buffer, sizes: Mapping[str, int]) -> bool:
    """Whether zero is in the range of a `uniform` buffer; that of a `normal` one reaches three deviations."""
    how = buffer.init or Init("zeros")

    def real(name: str, default: float) -> float:
        value = how.params.get(name, default)
        return float(evaluate(value, sizes)) if isinstance(value, str) else float(value)

    if how.kind == "normal":
        return abs(real("mean", 0.0)) <= 3 * real("std", 1.0)
    return real("low", 0.0) <= 0 < real("high", 1.0)
