"""Evidence from the compiled kernels of a slow side that was made: what they are given and never read.

Shared memory that is never read only takes occupancy, a buffer that nothing reads only takes writes, and a
fence in a kernel that talks to no other thread only waits (the check `sham`). Launches that differ only in
what the kernel never reads are the same launch (the check `redone`). Not covered: how it is found in PTX
(`kcurate.backends.cuda.unread`), what running shows (`kcurate.judge.made_slow`).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace

from kcurate.backends.base import Compiled, EntryPoint, Unread
from kcurate.judge.checks.findings import Finding
from kcurate.judge.checks.repeated_launches import find_repeated_launch
from kcurate.problem.ops import (
    BoundPointer,
    BoundScalar,
    CopyOp,
    FillOp,
    LaunchOp,
    Op,
    Program,
    WhileOp,
    flat,
)

# A buffer of at least this share of the outputs' bytes takes time to write.
LARGE_SHARE = 1 / 16
# In place of an argument that the kernel never reads.
NOTHING = BoundScalar(b"")


def find_unread(program: Program, code: str, compiled: Compiled, given_bytes: int = 0) -> Iterator[Finding]:
    """Unread shared memory of the kernels that a bound plan launches, and launches that are then equal.

    `given_bytes`: so much the side that this one was made from does not read either.
    """
    known = _known(compiled)
    if not any(known.values()):
        return
    yield from dict.fromkeys(_wasteful(program, known, given_bytes))
    same = tuple(_without_unread(op, known) for op in program.ops)
    if same != program.ops:
        yield from find_repeated_launch(replace(program, ops=same), code)


def _of(op: LaunchOp, known: Mapping[str, Unread | None]) -> Unread:
    return known.get(EntryPoint(op.kernel, op.template).expression) or Unread()


def _known(compiled: Compiled) -> Mapping[str, Unread | None]:
    return {expression: compiled.unread.get(symbol) for expression, symbol in compiled.lowered.items()}


def _wasteful(program: Program, known: Mapping[str, Unread | None], given_bytes: int) -> Iterator[Finding]:
    for op in launches(program):
        unread = _of(op, known)
        if (wasted := _unread_bytes(op, unread)) > given_bytes:
            yield Finding("sham", f"{op.kernel} never reads {wasted} bytes of its shared memory")
        if unread.lone_fences:
            yield Finding("sham", f"{op.kernel} has fences, and nothing that other blocks could wait for")


def launches(program: Program) -> Iterator[LaunchOp]:
    """The launches of a side, those inside its loops once."""
    return (op for op in flat(program.ops) if isinstance(op, LaunchOp))


def _unread_bytes(op: LaunchOp, unread: Unread) -> int:
    return unread.shared_bytes + (op.shared_bytes if unread.dynamic else 0)


def most_unread_bytes(program: Program, compiled: Compiled) -> int:
    """The most bytes of shared memory that a launch of a bound plan never reads."""
    known = _known(compiled)
    return max((_unread_bytes(op, _of(op, known)) for op in launches(program)), default=0)


def find_unread_buffers(program: Program, compiled: Compiled | None = None) -> Iterator[Finding]:
    """Buffers of the side's own that its plan and kernels write and nothing reads, bound at the bench size.

    Small ones may be left over (the block sums of a scan's last level), unless atomics contend for them.
    `compiled` None: every kernel counts as reading what it is given.
    """
    known = {} if compiled is None else _known(compiled)
    written_names: set[str] = set()
    updated_names: set[str] = set()
    read_names: set[str] = set()
    for op in flat(program.ops):
        if isinstance(op, LaunchOp):
            unread = _of(op, known)
            for at, arg in enumerate(op.args):
                names = {arg.buffer} if isinstance(arg, BoundPointer) else _named(arg)
                (written_names if at in (*unread.only_written, *unread.arguments) else read_names).update(
                    names
                )
                updated_names |= names if at in unread.updated else set()
        elif isinstance(op, WhileOp):
            read_names.add(op.flag)
        elif isinstance(op, FillOp):
            written_names.add(op.buffer)
        elif isinstance(op, CopyOp):
            written_names.add(op.to)
            read_names.add(op.source)
        else:
            read_names |= _named(op)
    output_bytes = sum(
        buffer.size_bytes for buffer in program.buffers.values() if buffer.record.role in ("out", "inout")
    )
    for name, buffer in sorted(program.buffers.items()):
        large = buffer.size_bytes >= LARGE_SHARE * output_bytes
        if buffer.extra and name in written_names - read_names and (large or name in updated_names):
            yield Finding("sham", f"nothing reads the buffer {name!r}, which the side adds")


def _named(record: object) -> set[str]:
    """Every text in a record: among them the names of all buffers that it may use."""
    return set(re.findall(r"'([^']*)'", repr(record)))


def _without_unread(op: Op, known: Mapping[str, Unread | None]) -> Op:
    if not isinstance(op, LaunchOp):
        return op
    unread = _of(op, known)
    args = tuple(NOTHING if at in unread.arguments else arg for at, arg in enumerate(op.args))
    return replace(op, args=args, shared_bytes=0 if unread.dynamic else op.shared_bytes)
