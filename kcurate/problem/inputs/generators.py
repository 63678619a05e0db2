"""The input generators: named, seeded, vectorised; docs/problems.md has an entry for each.

A generator draws from its own stream, except the CSR parts of one `group`, which share a stream so that they
match. Not covered: seeding of streams, shapes and dtypes (`kcurate.problem.inputs.contents`), parts and
structures (the other modules here).
"""

from __future__ import annotations

import zlib
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from kcurate.errors import ProblemError
from kcurate.problem.dtypes import UNIT_ROUNDOFF, is_float, numpy_dtype
from kcurate.problem.inputs import csr
from kcurate.problem.inputs.counter_based import (
    ALL_CLEARED,
    BELOW_THREE,
    DIVISORS,
    EIGHTH,
    PERIOD,
    PIECES,
    ROUNDED_DOWN,
    RUN,
    SHAPES,
    THOUSANDTH,
    Recipe,
    Shaping,
    Thinned,
)
from kcurate.problem.inputs.draws import (
    GENERATORS,
    INTEGER,
    NEEDED,
    PATH,
    REAL,
    TEXT,
    VARIED,
    Array,
    Draw,
    generator,
    word,
)
from kcurate.records import Promise

__all__ = ["GENERATORS"]
# Of 256 elements of `structured` inputs, those that have the common value.
COMMON = 77
# What the other elements of such inputs add up to, beside the ones that matter: about a tenth. Below the
# density `SPARSEST` they are zero.
SMALL = 0.125
SPARSEST = 2.0**-8
# By type: how many low bits of the mantissa are replaced, and by what. The next narrower type rounds the
# result down by almost half its spacing: float32, for float32 both bfloat16 (0x6FFF of 0x8000) and tf32
# (0x0FFF of 0x1000), and e4m3.
HARD_BITS = {
    "float64": (29, 0x0FFFFFFF),
    "float32": (16, 0x6FFF),
    "float16": (7, 0x3F),
    "bfloat16": (4, 0x07),
}


# Types with few values in a thousandth of a range.
_COARSE = ("float16", "bfloat16", "float8_e4m3", "float8_e5m2")
# What a promise excludes: equal elements in a row, or hardly different ones.
_EXCLUDED = {"distinct": ("alike", "few"), "varied": ("alike", "few")}
# What is true of all values in a range, whichever stand where.
KEPT_IN_RANGE = {"finite", "positive", "nonnegative", "nonzero", "varied"}
# Kinds whose values depend on each other, through the lengths of rows.
OF_ROWS = ("csr_offsets", "csr_columns", "csr_rows")


@generator(low=REAL, high=REAL, varied=(*SHAPES, "wide", "extremes", "structured"))
def uniform(draw: Draw) -> Array | Recipe:
    """`low`, `high` (default 0, 1): uniform reals."""
    low, high = draw.real("low", 0.0), draw.real("high", 1.0)
    least, most = (low, high) if low > 0 or high < 0 else (-np.inf, np.inf)
    top = float(np.nextafter(np.float32(high), np.float32(low)))
    parts = {"low": low, "span": high - low, "top": top, "least": least, "most": most}
    return _vary(draw, _shaped(draw, "uniform", **_cleared(draw), **parts), low, high)


@generator(mean=REAL, std=REAL, varied=(*SHAPES, "wide", "extremes", "structured"))
def normal(draw: Draw) -> Array | Recipe:
    """Normal with `mean` and `std` (default 0, 1)."""
    mean, std = draw.real("mean", 0.0), draw.real("std", 1.0)
    nominal = _shaped(draw, "normal", low=mean, span=std, **_cleared(draw))
    return _vary(draw, nominal, mean - 3 * std, mean + 3 * std)


@generator(mean=REAL, sigma=REAL, varied=("alike", "few", "ascending", "descending"))
def lognormal(draw: Draw) -> Array:
    """`mean`, `sigma` of the logarithm (default 0, 1): positive, skewed."""
    logarithms = draw.real("sigma", 1.0) * draw.rng.standard_normal(draw.count, np.float32)
    return _arranged(draw, np.asarray(np.exp(draw.real("mean", 0.0) + logarithms)))


@generator(low_exp=REAL, high_exp=REAL, varied=("alike", "few", "ascending", "descending", "extremes"))
def mixed(draw: Draw) -> Array:
    """Signed values from 2**`low_exp` to 2**`high_exp` (default -10, 10), uniform in the exponent."""
    exponents = draw.rng.uniform(draw.real("low_exp", -10.0), draw.real("high_exp", 10.0), draw.count)
    return _arranged(draw, np.exp2(exponents) * draw.rng.choice(np.array([-1.0, 1.0]), draw.count))


@generator(low=INTEGER, high=NEEDED, varied=(*SHAPES, "extremes"))
def integers(draw: Draw) -> Array | Recipe:
    """`low` (default 0) to `high`, exclusive: uniform integers."""
    low, high = draw.integer("low", 0), draw.integer("high")
    if high <= low:
        raise ProblemError("integers needs low < high")
    if high - low > 1 << 32 or is_float(draw.dtype):
        kind = np.int64 if high <= 1 << 63 else np.uint64
        return np.asarray(draw.rng.integers(low, high, draw.count, dtype=kind))
    return _shaped(draw, "integers", first=low, extent=high - low)


def variations(kind: str, dtype: str, promises: tuple[Promise, ...]) -> tuple[str, ...]:
    """The variations that a buffer has beside `nominal`."""
    excluded = {name for promise in promises for name in _EXCLUDED.get(promise, ())}
    if not is_float(dtype):
        excluded |= {"wide", "structured"}
    elif dtype not in ROUNDED_DOWN:
        excluded.add("neighbours")
    if dtype == "bool" or not (kind in OF_ROWS or KEPT_IN_RANGE.issuperset(promises)):
        excluded.add("extremes")
    return tuple(name for name in VARIED.get(kind, ()) if name not in excluded)


def _cleared(draw: Draw) -> dict[str, int]:
    """The bits that are cleared in a share of a draw's values, and that share; this does not keep an order.

    The share is 0 for an even seed, else random: so that a few elements do not reveal whether bits are
    cleared, and unchanged elements are tested too.
    """
    in_order = draw.variation in ("ascending", "descending")
    if not draw.rounded_down or in_order or draw.seed % 2 == 0:
        return {}
    share = int(draw.stream("cleared").integers(1, ALL_CLEARED, endpoint=True))
    return {"cleared": ROUNDED_DOWN.get(draw.dtype, 0), "share": share}


def _shaped(draw: Draw, form: str, **parts: Any) -> Recipe:
    """A recipe with shaped elements (`Shaping`): all of them if the variation says so, else patches."""
    allowed = [name for name in variations("uniform", draw.dtype, draw.promises) if name in SHAPES]
    near = _near(draw, form, **parts)
    if not near:
        allowed = [name for name in allowed if name != "neighbours"]
    width = draw.shape[-1] if draw.shape and draw.shape[-1] > 1 else draw.count
    key = draw.key()
    # Adding many nearly equal values would round in one direction.
    coarse = "varied" in draw.promises or draw.dtype in _COARSE or not draw.rounded_down
    shaping = Shaping(
        key=draw.key(),
        width=max(1, width),
        whole=SHAPES.index(draw.variation) if draw.variation in allowed else None,
        allowed=tuple(map(SHAPES.index, allowed)),
        shift=EIGHTH if coarse else THOUSANDTH,
        near=near,
    )
    return Recipe(form, draw.dtype, draw.count, key, shaping=shaping, **parts)


def _near(draw: Draw, form: str, *, low: float = 0.0, span: float = 0.0, extent: int = 0, **_: Any) -> int:
    """The low bits in which values of `neighbours` differ: below those that are cleared, and worth at most a
    32nd of the range. None in long sums, where adding nearly equal values would round in one direction."""
    if is_float(draw.dtype):
        largest = max(abs(low), abs(low + span)) if form == "uniform" else abs(low) + 3 * abs(span)
        steps = abs(span) / 32 / (2 * UNIT_ROUNDOFF[draw.dtype] * largest or 1.0)
    else:
        steps = extent / 32
    bits = ROUNDED_DOWN.get(draw.dtype, 0 if is_float(draw.dtype) else 1 << 12)
    most = (bits & -bits) - 1 if draw.rounded_down and bits else 0
    return min(most, (1 << max(0, int(min(steps, 2.0**31)).bit_length() - 1)) - 1)


def _recipe(draw: Draw, form: str, **parts: Any) -> Recipe:
    return Recipe(form, draw.dtype, draw.count, draw.key(), **parts)


@generator(count=INTEGER, varied=("alike", "ascending", "descending"))
def few_unique(draw: Draw) -> Array:
    """`count` distinct values (default 8), many ties."""
    values = draw.rng.permutation(np.arange(1, draw.integer("count", 8) + 1))
    return _arranged(
        draw, values[draw.rng.integers(0, values.size, draw.count, np.min_scalar_type(values.size - 1))]
    )


@generator(varied=("ascending", "descending"))
def permutation(draw: Draw) -> Array:
    """0 to n-1 in random order."""
    return _arranged(draw, draw.rng.permutation(draw.count))


def _arranged(draw: Draw, drawn: Array) -> Array:
    """The values sorted, or only one or four distinct ones, depending on the variation."""
    flat = drawn.reshape(-1)
    if draw.variation in ("alike", "few") and flat.size:
        flat = draw.rng.choice(flat, 1 if draw.variation == "alike" else 4).astype(numpy_dtype(draw.dtype))
        if is_float(draw.dtype):  # so that adding one value again and again does not round in one direction
            bits = flat.view(f"u{flat.itemsize}")
            bits &= ~bits.dtype.type(BELOW_THREE.get(draw.dtype, 0))
        return flat[draw.rng.integers(0, flat.size, draw.count)]
    if draw.variation in ("ascending", "descending"):
        return np.sort(flat)[:: 1 if draw.variation == "ascending" else -1]
    return flat


@generator(start=REAL, step=REAL)
def arange(draw: Draw) -> Array:
    """`start`, `start`+`step`, ... (default 0, 1)."""
    return draw.real("start", 0.0) + draw.real("step", 1.0) * np.arange(draw.count)


@generator(value=REAL)
def constant(draw: Draw) -> Array:
    """`value` everywhere (default 0)."""
    return np.full(draw.count, draw.real("value", 0.0))


@generator()
def zeros(draw: Draw) -> Array:
    """Zeros."""
    return np.zeros(draw.count)


@generator()
def ones(draw: Draw) -> Array:
    """Ones."""
    return np.ones(draw.count)


@generator(low=REAL, high=REAL, varied=("alike", "few"))
def sorted_(draw: Draw) -> Array | Recipe:
    """Ascending random values along the last axis, unevenly spread; `low`, `high` as for their kind."""
    if is_float(draw.dtype):
        low, high = draw.real("low", 0.0), draw.real("high", 1.0)
    else:
        low, high = draw.integer("low", 0), draw.integer("high", 1 << 20)
    ascending = _recipe(draw, "sorted", low=low, span=high - low, width=draw.shape[-1])
    if draw.variation == "nominal":
        return ascending
    return np.sort(_arranged(draw, ascending.values()).reshape(draw.shape))


@generator()
def one_hot(draw: Draw) -> Array:
    """One 1 in each row of the last axis, zeros elsewhere."""
    width = draw.shape[-1]
    rows = draw.count // width
    values = np.zeros((rows, width))
    values[np.arange(rows), draw.rng.integers(0, width, rows)] = 1
    return values


@generator(density=REAL, low=REAL, high=REAL)
def sparse(draw: Draw) -> Array:
    """Zeros except for a fraction `density` (default 0.1) of uniform values from `low` to `high`."""
    values = draw.real("low", -1.0) + (draw.real("high", 1.0) - draw.real("low", -1.0)) * draw.rng.random(
        draw.count
    )
    return np.where(draw.rng.random(draw.count) < draw.real("density", 0.1), values, 0.0)


@generator(alphabet=INTEGER, varied=("alike", "low", "high", "neighbours", "extremes"))
def text(draw: Draw) -> Array:
    """Symbols 0 to `alphabet`-1 (default 4) with unequal frequencies and runs."""
    letters = draw.integer("alphabet", 4)
    if draw.variation in ("low", "high"):  # the first or the last letters alone
        lower = draw.rng.integers(0, (letters + 1) // 2, draw.count)
        return lower if draw.variation == "low" else letters - 1 - lower
    ends = np.cumsum(1.0 / np.arange(1, letters + 1))
    by_word = np.searchsorted(ends, ends[-1] * np.arange(1 << 16) / (1 << 16), "right")
    values = by_word[draw.rng.integers(0, 1 << 16, draw.count, np.uint16)]
    repeated = draw.rng.integers(0, 256, draw.count, np.uint8) < 51  # a fifth
    source = np.maximum.accumulate(np.where(repeated, 0, np.arange(draw.count)))
    if draw.variation == "neighbours":
        return _hardly_different(draw, values[source], letters)
    return _arranged(draw, values[source])


def _hardly_different(draw: Draw, symbols: Array, letters: int) -> Array:
    """Make pairs of rows, or of runs of `RUN` symbols, that differ in one symbol."""
    width = draw.shape[-1] if len(draw.shape) > 1 else max(1, min(RUN, draw.count // 2))
    pairs = symbols[: draw.count // (2 * width) * 2 * width].reshape(-1, 2, width)
    pairs[:, 1] = pairs[:, 0]
    at = np.arange(len(pairs)), draw.rng.integers(0, width, len(pairs))
    other = draw.rng.integers(1, max(2, letters), len(pairs))
    pairs[:, 1][at] = (pairs[:, 0][at] + other) % letters
    return symbols


@generator(low=REAL, high=REAL, varied=("extremes",))
def points(draw: Draw) -> Array:
    """Coordinates from `low` to `high` (default 0, 1), half of them in clusters."""
    low, high = draw.real("low", 0.0), draw.real("high", 1.0)
    width = draw.shape[-1] if len(draw.shape) > 1 else 1
    rows = draw.count // width
    centres = draw.rng.random((16, width))
    spread = centres[draw.rng.integers(0, 16, rows)] + 0.02 * draw.rng.standard_normal((rows, width))
    values = np.where(draw.rng.random((rows, 1)) < 0.5, spread, draw.rng.random((rows, width)))
    return low + (high - low) * np.clip(values, 0.0, 1.0)


@generator(low=REAL, high=REAL, varied=("alike", "extremes"))
def image(draw: Draw) -> Array:
    """A picture in the last two axes: gradients, edges, noise; 0..1 for floating types, 0..255 for integers,
    or from `low` to `high`."""
    height, width = draw.shape[-2:] if len(draw.shape) > 1 else (1, draw.shape[0])
    planes = max(1, draw.count // max(1, height * width))
    x, y = np.arange(width, dtype=np.float32), np.arange(height, dtype=np.float32)
    noise = 0.05 * draw.rng.standard_normal(1 << 16, np.float32)
    out = np.empty((planes, height, width), np.float32)
    for plane in out:
        a, b, c, d = draw.rng.uniform(0.5, 4.0, 4).astype(np.float32)
        # The sides of the edges that columns and rows lie on.
        right, below = (x * d / width * 4).astype(int) % 2, (y * a / height * 4).astype(int) % 2
        columns = 0.5 + 0.2 * np.sin(a * x * 6.3 / width + b)
        rows = 0.2 * np.cos(c * y * 6.3 / height)
        same, other = (columns + 0.2 * (right ^ side) for side in (0, 1))
        np.take(noise, draw.rng.integers(0, noise.size, plane.shape, np.uint16), out=plane, mode="wrap")
        plane[below == 0] += same.astype(np.float32)
        plane[below == 1] += other.astype(np.float32)
        plane += rows[:, None]
        np.clip(plane, 0, 1, out=plane)
    low, high = draw.real("low", 0.0), draw.real("high", 1.0 if is_float(draw.dtype) else 255.0)
    if (low, high) != (0.0, 1.0):
        out = low + (high - low) * out
    return _arranged(draw, out if is_float(draw.dtype) else np.rint(out))


@generator(rows=NEEDED, cols=INTEGER, nnz=NEEDED, skew=REAL, group=TEXT, varied=("extremes", "path"))
def csr_offsets(draw: Draw) -> Array:
    """Row offsets of a sparse matrix or graph: `rows`, `cols` (default: rows), `nnz`, `skew`, `group`."""
    return csr.offsets(csr_lengths(draw))


@generator(rows=NEEDED, cols=INTEGER, nnz=NEEDED, skew=REAL, group=TEXT, varied=("extremes", "path"))
def csr_columns(draw: Draw) -> Array | Recipe:
    """The column indices that match `csr_offsets` of the same `group` and parameters, ascending in a row."""
    cols, starts = draw.integer("cols", draw.integer("rows")), csr.offsets(csr_lengths(draw))
    if draw.variation == "path":
        return csr.path(draw.stream(f"{_group(draw)} path"), starts, cols)
    key = word(draw.stream(f"{_group(draw)} columns"))
    return Recipe("columns", draw.dtype, int(starts[-1]), key, extent=cols, table=starts)


def csr_lengths(draw: Draw) -> Array:
    """The lengths of the rows of a group's sparse matrix."""
    rows = draw.integer("rows")
    cols = draw.integer("cols", rows)
    drawn = (draw.seed, _group(draw), rows, cols, draw.integer("nnz"), draw.real("skew", 0.0))
    return _csr_lengths(*drawn, draw.variation)


@lru_cache(maxsize=2)
def _csr_lengths(
    seed: int, group: str, rows: int, cols: int, entries: int, skew: float, variation: str
) -> Array:
    rng = np.random.default_rng([seed, zlib.crc32(group.encode())])
    lengths = csr.row_lengths(rng, rows, cols, entries, skew)
    if variation == "path":
        return csr.even(lengths)
    return csr.uneven(rng, lengths, cols) if variation == "extremes" else lengths


def _group(draw: Draw) -> str:
    return str(draw.params.get("group", "csr"))


@generator(path=PATH, key=TEXT)
def file(draw: Draw) -> Array:
    """Captured values: array `key` (default: the only one) of the NumPy archive `path`."""
    path = Path(str(draw.params.get("path", "")))
    try:
        with np.load(path, allow_pickle=False) as archive:
            key = str(draw.params.get("key", archive.files[0]))
            return np.asarray(archive[key])
    except (OSError, ValueError, KeyError, IndexError) as error:
        raise ProblemError("cannot read captured values", where=str(path), hint=str(error)) from error


def _vary(draw: Draw, nominal: Recipe, low: float, high: float) -> Array | Recipe:
    """Another distribution on the same range, `high` exclusive, for the floating-point kinds."""
    if draw.variation not in ("wide", "structured") or not is_float(draw.dtype):
        return nominal
    if draw.variation == "wide":
        return low + (high - low) * np.exp2(draw.rng.uniform(-12.0, -0.001, draw.count))
    return _structured(draw, low, high)


def _structured(draw: Draw, low: float, high: float) -> Recipe:
    """Five hard-to-narrow values with many ties, and zeros (the middle of a range without zero).

    With a `density` below one, whole runs of elements are almost zero, in the same places of all buffers of
    one size: few terms of a long sum matter, so that its honest rounding stays far below what narrower inputs
    or left-out elements change. They are small random numbers because adding one constant (zero minus the
    mean, squared) many times rounds in one direction; zeros where the sum is so long that they would be lost.
    In a range without zero the values are uneven instead.
    """
    has_zero = low <= 0 < high
    if draw.density < 1.0 and not has_zero:
        return _uneven(draw, low, high)
    common = 0.0 if has_zero else low + (high - low) / 2
    ties = _hard_to_narrow(low + (high - low) * ((np.arange(5) + 0.5) / 5.0), draw.dtype, low, high)
    table = np.concatenate([np.full(COMMON, common, ties.dtype), np.resize(ties, 256 - COMMON)])
    thinned = None
    if draw.density < 1.0:
        small = SMALL * draw.density * (low + high) / 2 if draw.density >= SPARSEST else 0.0
        thinned = Thinned(
            kept_key=word(draw.stream("kept")),
            small_key=draw.key(),
            below=int(draw.density * 2.0**32),
            always=int(draw.stream("always kept").integers(-(-draw.count // RUN))),
            small=small,
        )
    return _recipe(draw, "table", table=table, thinned=thinned)


def _uneven(draw: Draw, low: float, high: float) -> Recipe:
    """Values whose level depends on the index, so that no part of a buffer, strided or not, represents the
    whole; float32 mantissas that bfloat16 rounds down."""
    places, rng = np.arange(PERIOD), draw.rng
    levels = [
        np.mean([rng.random(divisor, np.float32)[places % divisor] for divisor in DIVISORS], axis=0)
        for _ in PIECES
    ]
    table = np.concatenate([*levels, rng.random(RUN)]).astype(np.float32)
    top = float(np.nextafter(np.float32(high), np.float32(low)))
    return _recipe(draw, "uneven", low=low, span=high - low, table=table, top=top)


def _hard_to_narrow(values: Array, dtype: str, low: float, high: float) -> Array:
    """The values, in their own type, with mantissas that narrower types all round in one direction.

    Rounding random inputs to tf32 changes a dot product of K positive terms by only about 3e-4 / sqrt(K),
    which no tolerance can tell from honest fp32 at large K; for these inputs it is 3e-4 at any K.
    """
    typed = values.astype(numpy_dtype(dtype))
    if dtype not in HARD_BITS:
        return typed
    dropped, pattern = HARD_BITS[dtype]
    bits = typed.view(f"u{typed.itemsize}")
    hard = (bits >> dropped << dropped | bits.dtype.type(pattern)).view(typed.dtype)
    reals = hard.astype(np.float64)
    return np.where((typed != 0) & (reals >= low) & (reals < high), hard, typed)
