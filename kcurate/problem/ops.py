"""A plan bound to sizes, as plain data: buffers with byte sizes and layouts, and operations in order.

Not covered: binding (`kcurate.problem.program`), running (`kcurate.judge.workers.inside.execute`).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise

from kcurate.errors import ProblemError
from kcurate.problem.dtypes import numpy_dtype
from kcurate.problem.tensor_maps import BoundTensorMap
from kcurate.records import Buffer, PointersArg, View


@dataclass(frozen=True)
class BoundBuffer:
    """A buffer with concrete extents: its logical `shape`, and its `physical` shape on the device, which
    depends on the side's view. `extra`: the side added it. `pad`: elements before and after the contents."""

    name: str
    record: Buffer
    shape: tuple[int, ...]
    physical: tuple[int, ...]
    pad: tuple[int, int]
    view: View | None
    extra: bool
    sizes: Mapping[str, int]

    @property
    def itemsize(self) -> int:
        """Bytes of one element."""
        return numpy_dtype(self.record.dtype).itemsize

    @property
    def count(self) -> int:
        """Elements on the device, without `pad`."""
        return math.prod(self.physical)

    @property
    def size_bytes(self) -> int:
        """Bytes on the device, without `pad`."""
        return self.count * self.itemsize


@dataclass(frozen=True)
class BoundPointer:
    """A pointer argument: a buffer's name and an offset in bytes."""

    buffer: str
    offset_bytes: int = 0


@dataclass(frozen=True)
class BoundScalar:
    """A by-value argument as bytes."""

    data: bytes


POINTER_BYTES = 8


@dataclass(frozen=True)
class BoundPointers:
    """A struct by value as bytes, with a pointer at each offset in bytes."""

    data: bytes
    at: tuple[int, ...]
    pointers: tuple[BoundPointer, ...]

    def holding(self, addresses: Iterable[int]) -> bytes:
        """The struct with an address in place of each pointer."""
        data = bytearray(self.data)
        for at, address in zip(self.at, addresses, strict=True):
            data[at : at + POINTER_BYTES] = address.to_bytes(POINTER_BYTES, "little")
        return bytes(data)


def bind_pointers(
    argument: PointersArg, data: bytes | None, pointers: tuple[BoundPointer, ...]
) -> BoundPointers:
    """A struct with its pointers in place; `data`: the struct's bytes (None: it holds only pointers).

    Raises:
        ProblemError: a pointer without an offset, outside the struct, or overlapping another.
    """
    size = POINTER_BYTES * len(pointers)
    places = argument.at if data is not None else tuple(range(0, size, POINTER_BYTES))
    data = bytes(size) if data is None else data
    ends = pairwise([-POINTER_BYTES, *sorted(places), len(data)])
    apart = all(after - before >= POINTER_BYTES for before, after in ends)
    if len(places) != len(pointers) or not apart or argument.at not in ((), places):
        raise ProblemError(
            f"{len(pointers)} pointers at {list(argument.at)} of a struct of {len(data)} bytes",
            hint=f"`at` has the offset in bytes of each; a pointer takes {POINTER_BYTES} bytes",
        )
    return BoundPointers(data, places, pointers)


BoundArg = BoundPointer | BoundScalar | BoundPointers | BoundTensorMap


@dataclass(frozen=True)
class LaunchOp:
    """A kernel launch with all extents as numbers."""

    kernel: str
    template: tuple[str, ...]
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    shared_bytes: int
    cooperative: bool
    args: tuple[BoundArg, ...]
    cluster: tuple[int, int, int] | None = None


@dataclass(frozen=True)
class FillOp:
    """Repeat `pattern` over `[offset_bytes, offset_bytes + size_bytes)`."""

    buffer: str
    offset_bytes: int
    size_bytes: int
    pattern: bytes


@dataclass(frozen=True)
class CopyOp:
    """Buffer to buffer, in bytes."""

    source: str
    offset_bytes: int
    to: str
    to_offset_bytes: int
    size_bytes: int


@dataclass(frozen=True)
class UploadOp:
    """Buffer to symbol, in bytes."""

    symbol: str
    to_offset_bytes: int
    source: str
    offset_bytes: int
    size_bytes: int


@dataclass(frozen=True)
class TextureOp:
    """Point a shim texture at a buffer; sizes in texels."""

    symbol: str
    buffer: str
    width: int
    height: int


@dataclass(frozen=True)
class SwapOp:
    """Exchange the storage of two buffers."""

    first: str
    second: str


@dataclass(frozen=True)
class WhileOp:
    """Run `body` until element 0 of `flag` is zero; more than `limit` iterations is a failure."""

    flag: str
    limit: int
    body: tuple[Op, ...]


@dataclass(frozen=True)
class CallOp:
    """Run a PyTorch module: `args` are buffer names or numbers; its results go to the buffers `to`."""

    call: str
    args: tuple[str | float, ...]
    to: tuple[str, ...]
    state: Mapping[str, str]


Op = LaunchOp | FillOp | CopyOp | UploadOp | TextureOp | SwapOp | WhileOp | CallOp


def flat(ops: Iterable[Op]) -> Iterator[Op]:
    """Every operation, a loop before its body."""
    for op in ops:
        yield op
        if isinstance(op, WhileOp):
            yield from flat(op.body)


@dataclass(frozen=True)
class Program:
    """A side bound to sizes."""

    buffers: Mapping[str, BoundBuffer]
    ops: tuple[Op, ...]
    entry_points: tuple[tuple[str, tuple[str, ...]], ...]
    symbols: tuple[str, ...]
    sizes: Mapping[str, int]
    records: tuple[tuple[str, ...], ...] = ()
