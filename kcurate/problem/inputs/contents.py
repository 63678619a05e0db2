"""The initial contents of buffers: seeded, from the generators named in the problem; device-independent.

The same seed gives the same values everywhere: each buffer has its own stream (seed and name). `variation`
re-draws the floating-point kinds from another distribution on the same range; indices, flags and structure
stay the same. Not covered: the generators (`kcurate.problem.inputs.generators`).
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Mapping

import numpy as np

from kcurate.errors import ProblemError, at
from kcurate.problem import addresses
from kcurate.problem.dtypes import numpy_dtype
from kcurate.problem.expressions import evaluate
from kcurate.problem.inputs import linked, matrices, meshes, suffixes
from kcurate.problem.inputs.draws import NEEDED, PARAMETERS, PATH, REAL, TEXT, WORDS, Array, Draw, Parameter
from kcurate.problem.inputs.structured import GENERATORS
from kcurate.records import Buffer, Init, Problem, Side

# Imported to register their generators.
REGISTERED = (addresses, linked, matrices, meshes, suffixes)
VARIATIONS = ("nominal", "shifted", "wide", "structured")
__all__ = ["GENERATORS", "PARAMETERS", "VARIATIONS", "check_fit", "check_init", "generate", "make"]


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
    count = math.prod(evaluate(extent, sizes) for extent in buffer.shape)

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
    elif not math.isfinite(value):
        raise ProblemError(f"{what} must be a finite number, not {value!r}")
    elif takes is not REAL and int(value) != value:
        raise ProblemError(f"{what} must be an integer, not {value!r}")


def make(name: str, buffer: Buffer, sizes: Mapping[str, int], seed: int, variation: str = "nominal") -> Array:
    """The initial contents of one buffer: its shape, its dtype, C order.

    Raises:
        ProblemError: an unknown kind, a missing or invalid parameter, or a shape that does not fit.
    """
    shape = tuple(evaluate(extent, sizes) for extent in buffer.shape)
    kind = numpy_dtype(buffer.dtype)
    how = buffer.init or Init("zeros")
    if variation not in VARIATIONS:
        raise ProblemError(f"unknown variation {variation!r}", hint=f"one of {', '.join(VARIATIONS)}")
    with at(name):
        check_init(how, sizes)
    rng = np.random.default_rng([seed, zlib.crc32(name.encode())])
    draw = Draw(rng, shape, buffer.dtype, how.params, sizes, seed, variation)
    values = GENERATORS[how.kind](draw)
    if values.size != draw.count:
        raise ProblemError(
            f"init {how.kind} gives {values.size} elements, the shape has {draw.count}", where=name
        )
    return np.ascontiguousarray(values.reshape(shape).astype(kind, copy=False))


def generate(
    problem: Problem, side: Side | None, sizes: Mapping[str, int], seed: int, variation: str = "nominal"
) -> dict[str, Array]:
    """The initial contents of every buffer with role `in` or `inout`, by name.

    `side` None: only the problem's own buffers. The same seed gives the same values for either side.
    """
    buffers = {**problem.buffers, **(side.buffers if side else {})}
    return {
        name: make(name, buffer, sizes, seed, variation)
        for name, buffer in buffers.items()
        if buffer.role in ("in", "inout")
    }
