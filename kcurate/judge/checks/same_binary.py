"""Whether two sides launch the same machine code in the same way.

Compares cubins; the emulator's binaries never count as the same. Names, line tables and unused kernels are
ignored. Not covered: what a cubin holds (`kcurate.backends.cuda.cubin`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from kcurate.backends.base import Compiled, EntryPoint
from kcurate.backends.cuda import cubin
from kcurate.problem.bind_once import bind_once
from kcurate.problem.ops import LaunchOp, Op, WhileOp
from kcurate.records import SIDES, Candidate
from kcurate.records.pair import SideName


def same(candidate: Candidate, compiled: Mapping[SideName, Compiled]) -> bool:
    """Whether both sides launch the same machine code with the same grids and arguments at every size."""
    problem = candidate.problem
    assert problem is not None, "a candidate without a problem is not compiled"
    if any(compiled[side].backend != "cuda" for side in SIDES):
        return False
    return all(
        _work(candidate, "slow", compiled["slow"], sizes) == _work(candidate, "fast", compiled["fast"], sizes)
        for sizes in problem.sizes.all
    )


def _work(candidate: Candidate, side: SideName, compiled: Compiled, sizes: Mapping[str, int]) -> Any:
    """A side's operations with kernel names replaced by code hashes, its extra buffers and variables."""
    assert candidate.problem is not None
    bound = bind_once(candidate.problem, getattr(candidate, side), sizes)
    hashes = {
        entry: cubin.code_sha256(compiled.binary, compiled.lowered[EntryPoint(*entry).expression])
        for entry in bound.entry_points
    }
    extra = {name: buffer for name, buffer in bound.buffers.items() if buffer.extra}
    data = sorted((v.size_bytes, v.initial or b"") for v in cubin.variables(compiled.binary))
    return [_hashed(op, hashes) for op in bound.ops], extra, data


def _hashed(op: Op, hashes: Mapping[tuple[str, tuple[str, ...]], str | None]) -> Any:
    if isinstance(op, LaunchOp):
        code = hashes[(op.kernel, op.template)]
        return replace(op, kernel=code or op.kernel, template=())
    if isinstance(op, WhileOp):
        return op.flag, op.limit, [_hashed(inner, hashes) for inner in op.body]
    return op
