"""Evidence from the compiled kernels of a slow side that was made: what they are given and never read.

Shared memory that is never read only takes occupancy (the check `sham`). Launches that differ only in what
the kernel never reads are the same launch (the check `redone`). Not covered: how it is found in PTX
(`kcurate.backends.cuda.unread`), what running shows (`kcurate.judge.made_slow`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from kcurate.backends.base import Compiled, EntryPoint, Unread
from kcurate.judge.checks.findings import Finding
from kcurate.judge.checks.repeated_launches import find_repeated_launch
from kcurate.problem.ops import BoundScalar, LaunchOp, Op, Program, WhileOp

# In place of an argument that the kernel never reads.
NOTHING = BoundScalar(b"")


def find_unread(program: Program, code: str, compiled: Compiled) -> Iterator[Finding]:
    """Unread shared memory of the kernels that a bound plan launches, and launches that are then equal."""
    known = {expression: compiled.unread.get(symbol) for expression, symbol in compiled.lowered.items()}
    yield from dict.fromkeys(_unread_shared(program.ops, known))
    same = tuple(_without_unread(op, known) for op in program.ops)
    if same != program.ops:
        yield from find_repeated_launch(replace(program, ops=same), code)


def _of(op: LaunchOp, known: Mapping[str, Unread | None]) -> Unread:
    return known.get(EntryPoint(op.kernel, op.template).expression) or Unread()


def _unread_shared(ops: tuple[Op, ...], known: Mapping[str, Unread | None]) -> Iterator[Finding]:
    for op in ops:
        if isinstance(op, WhileOp):
            yield from _unread_shared(op.body, known)
        if not isinstance(op, LaunchOp):
            continue
        unread = _of(op, known)
        dynamic = op.shared_bytes if unread.dynamic else 0
        if unread.shared_bytes or dynamic:
            what = f"{op.kernel} never reads {unread.shared_bytes + dynamic} bytes of its shared memory"
            yield Finding("sham", what)


def _without_unread(op: Op, known: Mapping[str, Unread | None]) -> Op:
    if not isinstance(op, LaunchOp):
        return op
    unread = _of(op, known)
    args = tuple(NOTHING if at in unread.arguments else arg for at, arg in enumerate(op.args))
    return replace(op, args=args, shared_bytes=0 if unread.dynamic else op.shared_bytes)
