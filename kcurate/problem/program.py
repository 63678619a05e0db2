"""Binds a plan to sizes: every expression becomes a number, every name a buffer, ready for a device to run.

`bind` raises `ProblemError` if something cannot be bound; `kcurate.problem.check` calls it for every size
before anything runs. Counted loops are unrolled here (limit `MAX_OPERATIONS`); `while_nonzero` stays,
because only the device knows its condition. Not covered: the resulting data (`kcurate.problem.ops`).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from kcurate.errors import ProblemError, at
from kcurate.problem.bound_buffers import MAX_BUFFER_BYTES, bind_buffers
from kcurate.problem.calls import bind_call
from kcurate.problem.dtypes import pack_struct, scalar_bytes
from kcurate.problem.expressions import evaluate
from kcurate.problem.ops import (
    BoundArg,
    BoundBuffer,
    BoundPointer,
    BoundScalar,
    CopyOp,
    FillOp,
    LaunchOp,
    Op,
    Program,
    SwapOp,
    TextureOp,
    UploadOp,
    WhileOp,
    bind_pointers,
)
from kcurate.problem.tensor_maps import bind_tensor_map
from kcurate.problem.triton_launch import constants_of, passed_arguments, refuse_for_language
from kcurate.records import (
    BindTexture,
    BufferArg,
    Call,
    Copy,
    Expr,
    Fill,
    For,
    Launch,
    PointersArg,
    Problem,
    Side,
    Step,
    Swap,
    TensorMapArg,
    Upload,
    ValueArg,
    WhileNonzero,
)
from kcurate.triton_source import Specialised

MAX_OPERATIONS = 100_000
MAX_NESTING = 16
# Hardware limits of compute capability 9.0 (CUDA C++ Programming Guide, table of technical specifications).
MAX_GRID = (2**31 - 1, 65535, 65535)
MAX_BLOCK = (1024, 1024, 64)
MAX_THREADS = 1024
MAX_SHARED_BYTES = 227 * 1024
WARP = 32
# Of a pipelined loop in Triton; more only takes longer to compile.
MAX_STAGES = 12
# Blocks in a cluster; more than 8 are not portable, which the launch then allows.
MAX_CLUSTER = 16

__all__ = ["BoundBuffer", "BoundPointer", "BoundScalar", "Program", "bind", "launch_count", "names_of"]


def names_of(problem: Problem, sizes: Mapping[str, int]) -> dict[str, int]:
    """The sizes and the integer scalars."""
    names = dict(sizes)
    for name, scalar in problem.scalars.items():
        if isinstance(scalar.dtype, str) and isinstance(scalar.value, int | str) and "int" in scalar.dtype:
            names.setdefault(name, evaluate(scalar.value, sizes))
    return names


def loop_values(step: For, names: Mapping[str, int]) -> range:
    """The values of a loop's variable; raises ProblemError for an unknown name or a step of zero."""
    start, stop, stride = (evaluate(one, names) for one in (step.from_, step.to, step.step))
    if stride == 0:
        raise ProblemError("the step of a loop is zero")
    return range(start, stop, stride)


class _Binder:
    """Walks one plan; tracks the names in scope and counts operations."""

    def __init__(self, problem: Problem, side: Side, sizes: Mapping[str, int]) -> None:
        self.problem, self.side = problem, side
        self.names = names_of(problem, sizes)
        self.buffers = bind_buffers(problem, side, sizes)
        self.entries: dict[tuple[str, tuple[str, ...]], None] = {}
        self.symbols: dict[str, None] = {}
        self.extents: dict[tuple[str, tuple[Expr, ...]], tuple[int, int, int]] = {}
        self.count = 0

    def number(self, expression: Expr, what: str, low: int = 0, high: int = MAX_BUFFER_BYTES) -> int:
        value = evaluate(expression, self.names)
        if not low <= value <= high:
            raise ProblemError(f"{what} is {value}, outside {low}..{high}")
        return value

    def buffer(self, name: str) -> BoundBuffer:
        if name not in self.buffers:
            raise ProblemError(f"unknown buffer {name!r}", hint=f"known: {', '.join(sorted(self.buffers))}")
        return self.buffers[name]

    def written(self, name: str) -> BoundBuffer:
        buffer = self.buffer(name)
        if buffer.record.role == "in":
            raise ProblemError(f"the plan writes the input {name!r}")
        return buffer

    def steps(self, steps: tuple[Step, ...], where: str) -> Iterator[Op]:
        if where.count(".do") > MAX_NESTING:
            raise ProblemError("steps are nested too deeply", where=where)
        for index, step in enumerate(steps):
            place = f"{where}[{index}]"
            with at(place):
                yield from self.step(step, place)

    def tick(self) -> None:
        self.count += 1
        if self.count > MAX_OPERATIONS:
            raise ProblemError(f"the plan has more than {MAX_OPERATIONS} operations")

    def step(self, step: Step, where: str) -> Iterator[Op]:
        self.tick()
        if isinstance(step, For):
            yield from self.loop(step, where)
        elif isinstance(step, WhileNonzero):
            flag = self.buffer(step.while_nonzero)
            if flag.record.dtype not in ("int32", "uint32"):
                raise ProblemError(f"the flag {flag.name!r} must be int32 or uint32")
            limit = self.number(step.max, "max", 1)
            yield WhileOp(flag.name, limit, tuple(self.steps(step.do, f"{where}.do")))
        else:
            yield self.simple(step, where)

    def loop(self, step: For, where: str) -> Iterator[Op]:
        values = loop_values(step, self.names)
        if step.for_ in self.names:
            raise ProblemError(f"the loop variable {step.for_!r} shadows another name")
        try:
            for value in values:
                self.tick()
                self.names[step.for_] = value
                yield from self.steps(step.do, f"{where}.do")
        finally:
            self.names.pop(step.for_, None)

    def simple(self, step: Step, where: str) -> Op:
        if isinstance(step, Launch):
            return self.launch(step, where)
        if isinstance(step, Fill):
            return self.fill(step)
        if isinstance(step, Copy):
            return self.copy(step)
        if isinstance(step, Upload):
            return self.upload(step)
        if isinstance(step, BindTexture):
            buffer = self.buffer(step.buffer)
            width = buffer.count if step.width is None else self.number(step.width, "width", 1)
            height = 0 if step.height is None else self.number(step.height, "height", 0)
            if width * max(1, height) > buffer.count:
                raise ProblemError(f"the texture reads past {buffer.name!r}")
            return TextureOp(step.bind_texture, buffer.name, width, height)
        if isinstance(step, Call):
            return bind_call(step, self.problem, self.side, self.buffers, self.names)
        assert isinstance(step, Swap)
        return self.swap(step)

    def launch(self, step: Launch, where: str) -> LaunchOp:
        refuse_for_language(step, self.side.language)
        if self.side.language == "triton":
            return self.triton_launch(step, where)
        grid, block = self.extent(step.grid, "grid", MAX_GRID), self.extent(step.block, "block", MAX_BLOCK)
        if block[0] * block[1] * block[2] > MAX_THREADS:
            raise ProblemError(f"{block[0] * block[1] * block[2]} threads per block, more than {MAX_THREADS}")
        template = tuple(self.template_argument(argument) for argument in step.template)
        self.entries[(step.launch, template)] = None
        args = []
        for index, argument in enumerate(step.args):
            with at(f"{where}.args[{index}]"):
                args.append(self.argument(argument))
        shared = self.number(step.shared_bytes, "shared_bytes", 0, MAX_SHARED_BYTES)
        cluster = self.cluster(step.cluster, grid) if step.cluster else None
        return LaunchOp(step.launch, template, grid, block, shared, step.cooperative, tuple(args), cluster)

    def triton_launch(self, step: Launch, where: str) -> LaunchOp:
        """A launch whose entry point says what it is compiled for; constants are not among its arguments."""
        grid = self.extent(step.grid, "grid", MAX_GRID)
        args = []
        for index, argument in enumerate(step.args):
            with at(f"{where}.args[{index}]"):
                args.append(self.argument(argument))
        parameters = passed_arguments(step.args, args, self.problem, self.buffers)
        warps = self.number(step.num_warps, "num_warps", 1, MAX_THREADS // WARP)
        stages = self.number(step.num_stages, "num_stages", 1, MAX_STAGES)
        constants = constants_of(step, self.names)
        template = Specialised(parameters, constants, warps, stages).template
        self.entries[(step.launch, template)] = None
        given = tuple(arg for arg, parameter in zip(args, parameters, strict=True) if not parameter.one)
        return LaunchOp(step.launch, template, grid, (warps * WARP, 1, 1), 0, False, given)

    def cluster(self, values: tuple[Expr, ...], grid: tuple[int, int, int]) -> tuple[int, int, int]:
        found = self.extent(values, "cluster", (MAX_CLUSTER,) * 3)
        if (count := math.prod(found)) > MAX_CLUSTER:
            raise ProblemError(f"{count} blocks per cluster, more than {MAX_CLUSTER}")
        if any(blocks % size for blocks, size in zip(grid, found, strict=True)):
            raise ProblemError(f"a grid of {grid} blocks cannot be divided into clusters of {found}")
        return found

    def extent(
        self, values: tuple[Expr, ...], what: str, limits: tuple[int, int, int]
    ) -> tuple[int, int, int]:
        if not 1 <= len(values) <= 3:
            raise ProblemError(f"{what} takes one to three values")
        if (what, values) in self.extents:
            return self.extents[what, values]
        padded = (*values, 1, 1)[:3]
        x, y, z = (self.number(v, f"{what}.{a}", 1, m) for v, a, m in zip(padded, "xyz", limits, strict=True))
        if all(isinstance(value, int) for value in values):
            self.extents[what, values] = x, y, z
        return x, y, z

    def template_argument(self, text: str) -> str:
        """Evaluate sizes in braces in a template argument: `{n/32}`."""
        return str(evaluate(text[1:-1], self.names)) if text.startswith("{") and text.endswith("}") else text

    def pointer(self, argument: BufferArg) -> BoundPointer:
        buffer = self.buffer(argument.buffer)
        low, high = -buffer.pad[0], buffer.count + buffer.pad[1]
        return BoundPointer(buffer.name, self.number(argument.offset, "offset", low, high) * buffer.itemsize)

    def argument(self, argument: Any) -> BoundArg:
        if isinstance(argument, BufferArg):
            return self.pointer(argument)
        if isinstance(argument, TensorMapArg):
            buffer = self.buffer(argument.tensor_map)
            place = self.pointer(BufferArg(buffer.name, argument.offset))
            room_bytes = buffer.size_bytes - place.offset_bytes + buffer.pad[1] * buffer.itemsize
            return bind_tensor_map(argument, buffer.record.dtype, place.offset_bytes, room_bytes, self.names)
        if isinstance(argument, PointersArg) and argument.pointers:
            members = tuple(self.pointer(member) for member in argument.pointers)
            rest = self.scalar(argument.scalar) if argument.scalar is not None else None
            return bind_pointers(argument, rest, members)
        if isinstance(argument, ValueArg):
            return BoundScalar(scalar_bytes(argument.dtype, self.value(argument.value)))
        if argument in self.buffers:
            return BoundPointer(argument)
        if argument in self.problem.scalars:
            return BoundScalar(self.scalar(argument))
        if argument in self.names:
            return BoundScalar(scalar_bytes("int32", self.names[argument]))
        raise ProblemError(
            f"unknown argument {argument!r}", hint="a buffer, a scalar, a size or a loop variable"
        )

    def scalar(self, name: str) -> bytes:
        record = self.problem.scalars.get(name)
        if record is None:
            raise ProblemError(f"unknown scalar {name!r}")
        if isinstance(record.dtype, str):
            if isinstance(record.value, Mapping):
                raise ProblemError(f"the scalar {name!r} has named values but no field list")
            return scalar_bytes(record.dtype, self.value(record.value))
        if not isinstance(record.value, Mapping):
            raise ProblemError(f"the struct {name!r} needs a value for each member")
        return pack_struct(record.dtype, {key: self.value(value) for key, value in record.value.items()})

    def value(self, value: Any) -> Any:
        return evaluate(value, self.names) if isinstance(value, str) else value

    def range_bytes(self, buffer: BoundBuffer, offset: Expr, count: Expr | None) -> tuple[int, int]:
        """Offset and size in bytes of `count` elements (None: to the end), within the buffer."""
        start = self.number(offset, "offset", 0, buffer.count)
        length = buffer.count - start if count is None else self.number(count, "count", 0)
        if start + length > buffer.count:
            raise ProblemError(
                f"elements {start}..{start + length} of {buffer.name!r}, which has {buffer.count}"
            )
        return start * buffer.itemsize, length * buffer.itemsize

    def fill(self, step: Fill) -> FillOp:
        buffer = self.written(step.fill)
        offset, size = self.range_bytes(buffer, step.offset, step.count)
        return FillOp(buffer.name, offset, size, scalar_bytes(buffer.record.dtype, self.value(step.value)))

    def copy(self, step: Copy) -> CopyOp:
        source, to = self.buffer(step.copy), self.written(step.to)
        offset, size = self.range_bytes(source, step.offset, step.count)
        to_offset = self.number(step.to_offset, "to_offset", 0, to.count) * to.itemsize
        if to_offset + size > to.size_bytes:
            raise ProblemError(f"the copy ends past {to.name!r}")
        return CopyOp(source.name, offset, to.name, to_offset, size)

    def upload(self, step: Upload) -> UploadOp:
        source = self.buffer(step.from_)
        offset, size = self.range_bytes(source, step.offset, step.count)
        self.symbols[step.upload] = None
        to_offset = self.number(step.to_offset, "to_offset") * source.itemsize
        return UploadOp(step.upload, to_offset, source.name, offset, size)

    def swap(self, step: Swap) -> SwapOp:
        first, second = (self.buffer(name) for name in step.swap)
        kinds = {(one.physical, one.record.dtype, one.pad) for one in (first, second)}
        if len(kinds) > 1:
            raise ProblemError(f"{first.name!r} and {second.name!r} differ in shape, dtype or pad")
        return SwapOp(first.name, second.name)


def bind(problem: Problem, side: Side, sizes: Mapping[str, int], *, where: str = "plan") -> Program:
    """The program for one side at one size setting.

    Raises:
        ProblemError: an unknown name, a value out of range, an access past a buffer's declared shape; `where`
            names the place, such as `plan[0].args[3]`.
    """
    bound = _Binder(problem, side, sizes)
    ops, records = tuple(bound.steps(side.plan, where)), problem.records
    return Program(bound.buffers, ops, tuple(bound.entries), tuple(bound.symbols), dict(sizes), records)


def launch_count(plan: Iterable[Step], names: Mapping[str, int]) -> int | None:
    """How many launches a plan has, without binding them (`names`: `names_of`); None: data decides.

    Raises:
        ProblemError: an unknown name in the bounds of a loop, or a step of zero.
    """
    total = 0
    for step in plan:
        if isinstance(step, WhileNonzero):
            return None
        total += isinstance(step, Launch)
        if isinstance(step, For):
            for value in loop_values(step, names):
                inner = launch_count(step.do, {**names, step.for_: value})
                if inner is None:
                    return None
                total += inner
    return total
