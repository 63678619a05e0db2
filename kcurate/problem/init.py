"""Input generators: named, seeded, vectorised; nothing here knows a device.

`GENERATORS[kind](draw)` gives the values of one buffer. Parameters that are integers may be expressions over
the sizes. A generator draws from a stream of its own (seed and buffer name), except the two CSR parts of one
`group`, which share a stream so that they fit together. `variation` re-draws the real-valued kinds from
another distribution (see `VARIATIONS`); indices, flags and structure stay as they are.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from kcurate.errors import ProblemError
from kcurate.problem import csr
from kcurate.problem.dtypes import is_float, numpy_dtype
from kcurate.problem.expressions import evaluate
from kcurate.records import Buffer, Init, Problem, Side

Array = npt.NDArray[Any]
Params = Mapping[str, int | float | str | bool]
VARIATIONS = ("nominal", "shifted", "wide", "structured")


@dataclass(frozen=True)
class Draw:
    """What a generator gets: a stream of its own, where to put how much, and its parameters."""

    rng: np.random.Generator
    shape: tuple[int, ...]
    dtype: str
    params: Params
    sizes: Mapping[str, int]
    seed: int
    variation: str

    @property
    def count(self) -> int:
        """Elements in all."""
        return int(np.prod(self.shape, dtype=np.int64))

    def integer(self, name: str, default: int | None = None) -> int:
        """An integer parameter, evaluated over the sizes."""
        value = self.params.get(name, default)
        if value is None:
            raise ProblemError(f"init needs the parameter {name!r}")
        return evaluate(value, self.sizes) if isinstance(value, str) else int(value)

    def real(self, name: str, default: float) -> float:
        """A real parameter."""
        value = self.params.get(name, default)
        return float(evaluate(value, self.sizes)) if isinstance(value, str) else float(value)

    def stream(self, group: str) -> np.random.Generator:
        """A stream shared by everything of one group."""
        return np.random.default_rng([self.seed, zlib.crc32(group.encode())])


Generator = Callable[[Draw], Array]
GENERATORS: dict[str, Generator] = {}


def generator(function: Generator) -> Generator:
    """Register a generator under its function's name."""
    GENERATORS[function.__name__.rstrip("_")] = function
    return function


@generator
def uniform(draw: Draw) -> Array:
    """`low`, `high` (default 0, 1): uniform reals."""
    low, high = draw.real("low", 0.0), draw.real("high", 1.0)
    return _vary(draw, low + (high - low) * draw.rng.random(draw.count, np.float32), low, high)


@generator
def normal(draw: Draw) -> Array:
    """`mean`, `std` (default 0, 1)."""
    mean, std = draw.real("mean", 0.0), draw.real("std", 1.0)
    return _vary(
        draw, mean + std * draw.rng.standard_normal(draw.count, np.float32), mean - 3 * std, mean + 3 * std
    )


@generator
def lognormal(draw: Draw) -> Array:
    """`mean`, `sigma` of the logarithm (default 0, 1): positive, skewed."""
    logarithms = draw.real("sigma", 1.0) * draw.rng.standard_normal(draw.count, np.float32)
    return np.asarray(np.exp(draw.real("mean", 0.0) + logarithms))


@generator
def mixed(draw: Draw) -> Array:
    """Signed values from 2**`low_exp` to 2**`high_exp` (default -10, 10), uniform in the exponent."""
    exponents = draw.rng.uniform(draw.real("low_exp", -10.0), draw.real("high_exp", 10.0), draw.count)
    return np.asarray(np.exp2(exponents) * draw.rng.choice(np.array([-1.0, 1.0]), draw.count))


@generator
def integers(draw: Draw) -> Array:
    """`low` (default 0) to `high`, exclusive: uniform integers."""
    low, high = draw.integer("low", 0), draw.integer("high")
    if high <= low:
        raise ProblemError("integers needs low < high")
    return draw.rng.integers(low, high, draw.count)


@generator
def few_unique(draw: Draw) -> Array:
    """`count` different values (default 8), many ties."""
    values = draw.rng.permutation(np.arange(1, draw.integer("count", 8) + 1))
    return values[draw.rng.integers(0, values.size, draw.count)]


@generator
def permutation(draw: Draw) -> Array:
    """0 to n-1 in random order."""
    return draw.rng.permutation(draw.count)


@generator
def arange(draw: Draw) -> Array:
    """`start`, `start`+`step`, ... (default 0, 1)."""
    return draw.real("start", 0.0) + draw.real("step", 1.0) * np.arange(draw.count)


@generator
def constant(draw: Draw) -> Array:
    """`value` everywhere (default 0)."""
    return np.full(draw.count, draw.real("value", 0.0))


@generator
def zeros(draw: Draw) -> Array:
    """Zeros."""
    return np.zeros(draw.count)


@generator
def ones(draw: Draw) -> Array:
    """Ones."""
    return np.ones(draw.count)


@generator
def sorted_(draw: Draw) -> Array:
    """Uniform values in ascending order along the last axis; `low`, `high` as for their kind."""
    values: Array
    if is_float(draw.dtype):
        values = draw.real("low", 0.0) + (draw.real("high", 1.0) - draw.real("low", 0.0)) * draw.rng.random(
            draw.count
        )
    else:
        values = draw.rng.integers(draw.integer("low", 0), draw.integer("high", 1 << 20), draw.count)
    return np.sort(values.reshape(draw.shape), axis=-1)


@generator
def sparse(draw: Draw) -> Array:
    """Zeros but for a share `density` (default 0.1) of uniform values from `low` to `high`."""
    values = draw.real("low", -1.0) + (draw.real("high", 1.0) - draw.real("low", -1.0)) * draw.rng.random(
        draw.count
    )
    return np.where(draw.rng.random(draw.count) < draw.real("density", 0.1), values, 0.0)


@generator
def text(draw: Draw) -> Array:
    """Symbols 0 to `alphabet`-1 (default 4) with unequal frequencies and runs."""
    letters = draw.integer("alphabet", 4)
    weights = 1.0 / np.arange(1, letters + 1)
    values = draw.rng.choice(letters, draw.count, p=weights / weights.sum())
    repeated = draw.rng.random(draw.count) < 0.2
    source = np.maximum.accumulate(np.where(repeated, 0, np.arange(draw.count)))
    return values[source]


@generator
def points(draw: Draw) -> Array:
    """Coordinates from `low` to `high` (default 0, 1), half of them in clusters."""
    low, high = draw.real("low", 0.0), draw.real("high", 1.0)
    width = draw.shape[-1] if len(draw.shape) > 1 else 1
    rows = draw.count // width
    centres = draw.rng.random((16, width))
    spread = centres[draw.rng.integers(0, 16, rows)] + 0.02 * draw.rng.standard_normal((rows, width))
    values = np.where(draw.rng.random((rows, 1)) < 0.5, spread, draw.rng.random((rows, width)))
    return low + (high - low) * np.clip(values, 0.0, 1.0)


@generator
def image(draw: Draw) -> Array:
    """A picture in the last two axes: gradients, edges, noise; 0..1 for reals, 0..255 for integers."""
    height, width = draw.shape[-2:] if len(draw.shape) > 1 else (1, draw.shape[0])
    planes = max(1, draw.count // max(1, height * width))
    y, x = np.mgrid[0:height, 0:width].astype(np.float32)
    out = np.empty((planes, height, width), np.float32)
    for plane in out:
        a, b, c, d = draw.rng.uniform(0.5, 4.0, 4)
        smooth = 0.5 + 0.2 * np.sin(a * x * 6.3 / width + b) + 0.2 * np.cos(c * y * 6.3 / height)
        edges = 0.2 * (((x * d / width * 4).astype(np.int32) + (y * a / height * 4).astype(np.int32)) % 2)
        plane[:] = np.clip(
            smooth + edges + 0.05 * draw.rng.standard_normal((height, width), np.float32), 0, 1
        )
    return out if is_float(draw.dtype) else np.rint(out * 255)


@generator
def csr_offsets(draw: Draw) -> Array:
    """Row offsets of a sparse matrix or graph: `rows`, `cols` (default: rows), `nnz`, `skew`, `group`."""
    return csr.offsets(_csr_lengths(draw)[1])


@generator
def csr_columns(draw: Draw) -> Array:
    """The columns that go with `csr_offsets` of the same `group` and parameters."""
    rng, lengths = _csr_lengths(draw)
    return csr.columns(rng, lengths, draw.integer("cols", draw.integer("rows")))


def _csr_lengths(draw: Draw) -> tuple[np.random.Generator, Array]:
    rng = draw.stream(str(draw.params.get("group", "csr")))
    rows = draw.integer("rows")
    cols = draw.integer("cols", rows)
    return rng, csr.row_lengths(rng, rows, cols, draw.integer("nnz"), draw.real("skew", 0.0))


@generator
def file(draw: Draw) -> Array:
    """Captured values: array `key` (default the only one) of the NumPy archive `path`."""
    path = Path(str(draw.params.get("path", "")))
    try:
        with np.load(path, allow_pickle=False) as archive:
            key = str(draw.params.get("key", archive.files[0]))
            return np.asarray(archive[key])
    except (OSError, ValueError, KeyError, IndexError) as error:
        raise ProblemError("cannot read captured values", where=str(path), hint=str(error)) from error


def _vary(draw: Draw, nominal: Array, low: float, high: float) -> Array:
    """Another distribution on the same range for the real-valued kinds; integers and `nominal` stay."""
    if draw.variation == "nominal" or not is_float(draw.dtype):
        return nominal
    span = high - low
    if draw.variation == "shifted":
        return low + span * (0.75 + 0.08 * draw.rng.standard_normal(draw.count))
    if draw.variation == "wide":
        return low + span * np.exp2(draw.rng.uniform(-12.0, 0.0, draw.count))
    ties = low + span * (draw.rng.integers(0, 5, draw.count) / 4.0)
    return np.where(draw.rng.random(draw.count) < 0.3, low + span / 2 if low > 0 or high < 0 else 0.0, ties)


def make(name: str, buffer: Buffer, sizes: Mapping[str, int], seed: int, variation: str = "nominal") -> Array:
    """The initial contents of one buffer: its shape, its dtype, C order.

    Raises:
        ProblemError: an unknown kind, a missing or bad parameter, or a shape that does not fit.
    """
    shape = tuple(evaluate(extent, sizes) for extent in buffer.shape)
    kind = numpy_dtype(buffer.dtype)
    how = buffer.init or Init("zeros")
    if how.kind not in GENERATORS:
        raise ProblemError(
            f"unknown init {how.kind!r}", where=name, hint=f"one of {', '.join(sorted(GENERATORS))}"
        )
    rng = np.random.default_rng([seed, zlib.crc32(name.encode())])
    draw = Draw(rng, shape, buffer.dtype, how.params, sizes, seed, variation)
    values = GENERATORS[how.kind](draw)
    if values.size != draw.count:
        raise ProblemError(
            f"init {how.kind} gives {values.size} elements, the shape has {draw.count}", where=name
        )
    return np.ascontiguousarray(values.reshape(shape).astype(kind))


def generate(
    problem: Problem, side: Side | None, sizes: Mapping[str, int], seed: int, variation: str = "nominal"
) -> dict[str, Array]:
    """The contents of every buffer that has some at the start (roles `in` and `inout`), by name.

    `side` None: only the problem's own buffers. The same seed gives the same values on either side.
    """
    buffers = {**problem.buffers, **(side.buffers if side else {})}
    return {
        name: make(name, buffer, sizes, seed, variation)
        for name, buffer in buffers.items()
        if buffer.role in ("in", "inout")
    }
