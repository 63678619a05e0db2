"""Tables of pointers: buffers that hold addresses of other buffers, for `float**` and structs of pointers.

The generator makes the device-independent part: offsets in elements, and plain numbers. `aimed` adds each
buffer's address once it is known. Pointers refer to storage: they do not follow a `swap`. Not covered: a
struct of pointers passed by value (an argument in the plan).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import replace

import numpy as np

from kcurate.errors import ProblemError, at
from kcurate.problem.dtypes import numpy_dtype
from kcurate.problem.inputs.draws import WORDS, Array, Draw, generator
from kcurate.problem.inputs.structured import formula
from kcurate.problem.ops import BoundBuffer

_FIELD = re.compile(r"(=|[A-Za-z_]\w*)\s*(.*)", re.S)
KIND = "addresses"
# Every bind evaluates the whole table, to check that its pointers stay inside their buffers.
MAX_MEMBERS = 1 << 20


@generator(fields=WORDS)
def addresses(draw: Draw) -> Array:
    """Rows of 64-bit members (`uint64`), separated by ";" in `fields`: a buffer's name and an expression over
    the sizes and the row `i` (the offset in elements; default 0), or "=" and an expression."""
    members = fields(str(draw.params["fields"]))
    if draw.count % len(members):
        raise ProblemError(f"{draw.shape} is not divisible into rows of {len(members)} fields")
    rows = draw.count // len(members)
    out = np.empty((rows, len(members)), np.int64)
    for column, (_, text) in enumerate(members):
        out[:, column] = formula(replace(draw, shape=(rows,), params={"value": text}))
    return out.view(np.uint64)


def fields(text: str) -> tuple[tuple[str | None, str], ...]:
    """For each member, the buffer that it points into (None: a plain number) and its expression.

    Raises:
        ProblemError: a member has neither form.
    """
    members = []
    for member in text.split(";"):
        match = _FIELD.fullmatch(member.strip())
        if match is None or (match[1] == "=" and not match[2]):
            raise ProblemError(f"{member.strip()!r} is not a member", hint="BUFFER [OFFSET], or = VALUE")
        members.append((None if match[1] == "=" else match[1], match[2] or "0"))
    return tuple(members)


def is_table(buffer: BoundBuffer) -> bool:
    """Whether a buffer holds pointers."""
    return buffer.record.init is not None and buffer.record.init.kind == KIND


def check_tables(bound: Mapping[str, BoundBuffer]) -> None:
    """Check that every table of pointers can be evaluated and points into existing buffers.

    Raises:
        ProblemError: a table that cannot be evaluated, or a pointer outside its buffer.
    """
    for name, buffer in bound.items():
        if not is_table(buffer):
            continue
        where = f"buffers.{name}"
        if (buffer.record.dtype, buffer.record.role, buffer.view) != ("uint64", "in", None):
            raise ProblemError("a table of pointers must be a uint64 input without a view", where=where)
        if buffer.count > MAX_MEMBERS:
            raise ProblemError(f"a table of pointers has at most {MAX_MEMBERS} members", where=where)
        with at(where):
            members = _members(buffer)
            missing = sorted({target for target, _ in members if target is not None} - set(bound))
            if missing:
                raise ProblemError(f"unknown buffer {missing[0]!r}")
            rng = np.random.default_rng(0)
            assert buffer.record.init is not None
            draw = Draw(rng, buffer.shape, "uint64", buffer.record.init.params, buffer.sizes, 0, "nominal")
            offsets = addresses(draw).view(np.int64).reshape(-1, len(members))
        for (target, _), column in zip(members, offsets.T, strict=True):
            if target is not None and not 0 <= column.min() <= column.max() <= bound[target].count:
                raise ProblemError(f"offset {column.min()}..{column.max()} outside {target!r}", where=where)


def aimed(
    buffer: BoundBuffer, offsets: Array, bound: Mapping[str, BoundBuffer], address: Callable[[str], int]
) -> Array:
    """The table with offsets turned into addresses; `address` gives the start of a buffer's contents."""
    members = _members(buffer)
    out = offsets.astype(np.uint64).reshape(-1, len(members))
    for column, (target, _) in enumerate(members):
        if target is not None:
            size = numpy_dtype(bound[target].record.dtype).itemsize
            out[:, column] = out[:, column] * np.uint64(size) + np.uint64(address(target))
    return out.reshape(buffer.shape)


def _members(buffer: BoundBuffer) -> tuple[tuple[str | None, str], ...]:
    assert buffer.record.init is not None
    return fields(str(buffer.record.init.params.get("fields", "")))
