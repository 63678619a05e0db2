"""Binds a plan and its buffers to sizes: expressions become numbers, names become buffers.

`bind` raises `ProblemError` if something cannot be bound; `kcurate.problem.check` calls it for every size
before anything runs. Counted loops are unrolled here (limit `MAX_OPERATIONS`); `while_nonzero` stays,
because only the device knows its condition. Not covered: the resulting data (`kcurate.problem.ops`).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from kcurate import records
from kcurate.errors import ProblemError, at
from kcurate.problem import ops
from kcurate.problem.addresses import check_tables
from kcurate.problem.calls import bind_call
from kcurate.problem.dtypes import pack_struct, scalar_bytes
from kcurate.problem.expressions import evaluate
from kcurate.problem.ops import BoundBuffer
from kcurate.problem.tensor_maps import bind_tensor_map
from kcurate.problem.triton_launch import constants_of, passed_arguments, refuse_for_language
from kcurate.records import Buffer, Problem, Side, View
from kcurate.triton_source import Specialised

MAX_BUFFER_BYTES = 1 << 36
# Inputs are generated on the host, sometimes twice.
MAX_INPUT_BYTES = 1 << 33
# Inputs that a side adds are filled outside the measured time: large ones could hold the results.
MAX_OWN_INPUT_BYTES = 1 << 28


def bind_buffers(problem: Problem, side: Side, sizes: Mapping[str, int]) -> dict[str, BoundBuffer]:
    """Every buffer of the problem and of the side.

    Raises:
        ProblemError: an extent below one, a layout that does not fit, too many bytes.
    """
    bound = {}
    for name, record in {**problem.buffers, **side.buffers}.items():
        with at(f"buffers.{name}"):
            bound[name] = _bind_buffer(name, record, side.views.get(name), sizes, name in side.buffers)
    input_bytes = sum(b.size_bytes for b in bound.values() if b.record.role in ("in", "inout"))
    own_input_bytes = sum(b.size_bytes for b in bound.values() if b.record.role == "in" and b.extra)
    for label, size, most in (
        ("the side's own inputs", own_input_bytes, MAX_OWN_INPUT_BYTES),
        ("inputs", input_bytes, MAX_INPUT_BYTES),
        ("all", sum(b.size_bytes for b in bound.values()), MAX_BUFFER_BYTES),
    ):
        if size > most:
            raise ProblemError(f"{label} together have {size} bytes, more than {most}", where="buffers")
    check_tables(bound)
    return bound


def _bind_buffer(
    name: str, record: Buffer, view: View | None, sizes: Mapping[str, int], extra: bool
) -> BoundBuffer:
    shape = tuple(evaluate(extent, sizes) for extent in record.shape)
    if not shape or any(extent < 1 for extent in shape):
        raise ProblemError(f"the shape {shape} has an extent below one")
    before, after = (evaluate(p, sizes) for p in record.pad or (0, 0))
    physical = _viewed(shape, view, sizes) if view is not None else shape
    bound = BoundBuffer(name, record, shape, physical, (before, after), view, extra, sizes)
    if min(before, after) < 0:
        raise ProblemError(f"a negative pad ({before}, {after})")
    size_bytes = bound.size_bytes + (before + after) * bound.itemsize
    if size_bytes > MAX_BUFFER_BYTES:
        raise ProblemError(f"{size_bytes} bytes, more than {MAX_BUFFER_BYTES}")
    return bound


def _viewed(shape: tuple[int, ...], view: View, sizes: Mapping[str, int]) -> tuple[int, ...]:
    """The shape in memory of a buffer that a side sees through a view."""
    physical = shape
    if view.permute is not None:
        if sorted(view.permute) != list(range(len(shape))):
            raise ProblemError(f"permute {view.permute} is not a permutation of the axes")
        physical = tuple(shape[axis] for axis in view.permute)
    if view.pad is not None:
        pads = [(evaluate(a, sizes), evaluate(b, sizes)) for a, b in view.pad]
        if len(pads) != len(physical) or any(a < 0 or b < 0 for a, b in pads):
            raise ProblemError("pad needs one pair of counts per axis")
        physical = tuple(a + extent + b for extent, (a, b) in zip(physical, pads, strict=True))
    return physical


MAX_OPERATIONS = 100_000
MAX_NESTING = 16
# Hardware limits of compute capability 9.0 (CUDA C++ Programming Guide, table of technical specifications).
MAX_GRID = (2**31 - 1, 65535, 65535)
MAX_BLOCK = (1024, 1024, 64)
MAX_THREADS = 1024
MAX_SHARED_BYTES = 227 * 1024
WARP = 32
# Stages of a pipelined loop in Triton; more only take longer to compile.
MAX_STAGES = 12
# Blocks in a cluster. More than 8 need the kernel attribute for non-portable sizes, which the launch sets.
MAX_CLUSTER = 16


def names_of(problem: records.Problem, sizes: Mapping[str, int]) -> dict[str, int]:
    """The values of the sizes and of the integer scalars."""
    names = dict(sizes)
    for name, scalar in problem.scalars.items():
        if isinstance(scalar.dtype, str) and isinstance(scalar.value, int | str) and "int" in scalar.dtype:
            names.setdefault(name, evaluate(scalar.value, sizes))
    return names


def loop_values(step: records.For, names: Mapping[str, int]) -> range:
    """The values of a loop's variable; raises ProblemError for an unknown name or a step of zero."""
    start, stop, stride = (evaluate(bound, names) for bound in (step.from_, step.to, step.step))
    if stride == 0:
        raise ProblemError("the step of a loop is zero")
    return range(start, stop, stride)


class _Binder:
    """Walks one plan; tracks the names in scope and counts operations."""

    def __init__(self, problem: records.Problem, side: records.Side, sizes: Mapping[str, int]) -> None:
        self.problem, self.side = problem, side
        self.names = names_of(problem, sizes)
        self.buffers = bind_buffers(problem, side, sizes)
        self.entries: dict[tuple[str, tuple[str, ...]], None] = {}
        self.symbols: dict[str, None] = {}
        self.extents: dict[tuple[str, tuple[records.Expr, ...]], tuple[int, int, int]] = {}
        self.count = 0

    def number(self, expression: records.Expr, name: str, low: int = 0, high: int = MAX_BUFFER_BYTES) -> int:
        value = evaluate(expression, self.names)
        if not low <= value <= high:
            raise ProblemError(f"{name} is {value}, outside {low}..{high}")
        return value

    def buffer(self, name: str) -> ops.BoundBuffer:
        if name not in self.buffers:
            raise ProblemError(f"unknown buffer {name!r}", hint=f"known: {', '.join(sorted(self.buffers))}")
        return self.buffers[name]

    def written(self, name: str) -> ops.BoundBuffer:
        buffer = self.buffer(name)
        if buffer.record.role == "in":
            raise ProblemError(f"the plan writes the input {name!r}")
        return buffer

    def steps(self, steps: tuple[records.Step, ...], where: str) -> Iterator[ops.Op]:
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

    def step(self, step: records.Step, where: str) -> Iterator[ops.Op]:
        self.tick()
        if isinstance(step, records.For):
            yield from self.loop(step, where)
        elif isinstance(step, records.WhileNonzero):
            flag = self.buffer(step.while_nonzero)
            if flag.record.dtype not in ("int32", "uint32"):
                raise ProblemError(f"the flag {flag.name!r} must be int32 or uint32")
            limit = self.number(step.max, "max", 1)
            yield ops.WhileOp(flag.name, limit, tuple(self.steps(step.do, f"{where}.do")))
        else:
            yield self.simple(step, where)

    def loop(self, step: records.For, where: str) -> Iterator[ops.Op]:
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

    def simple(self, step: records.Step, where: str) -> ops.Op:
        if isinstance(step, records.Launch):
            return self.launch(step, where)
        if isinstance(step, records.Fill):
            return self.fill(step)
        if isinstance(step, records.Copy):
            return self.copy(step)
        if isinstance(step, records.Upload):
            return self.upload(step)
        if isinstance(step, records.BindTexture):
            buffer = self.buffer(step.buffer)
            width = buffer.count if step.width is None else self.number(step.width, "width", 1)
            height = 0 if step.height is None else self.number(step.height, "height", 0)
            if width * max(1, height) > buffer.count:
                raise ProblemError(f"the texture reads past {buffer.name!r}")
            return ops.TextureOp(step.bind_texture, buffer.name, width, height)
        if isinstance(step, records.Call):
            return bind_call(step, self.problem, self.side, self.buffers, self.names)
        assert isinstance(step, records.Swap)
        return self.swap(step)

    def launch(self, step: records.Launch, where: str) -> ops.LaunchOp:
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
        return ops.LaunchOp(
            step.launch, template, grid, block, shared, step.cooperative, tuple(args), cluster
        )

    def triton_launch(self, step: records.Launch, where: str) -> ops.LaunchOp:
        """A launch whose `template` is its specialisation; arguments that equal one become constants."""
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
        passed = tuple(arg for arg, parameter in zip(args, parameters, strict=True) if not parameter.one)
        return ops.LaunchOp(step.launch, template, grid, (warps * WARP, 1, 1), 0, False, passed)

    def cluster(self, values: tuple[records.Expr, ...], grid: tuple[int, int, int]) -> tuple[int, int, int]:
        cluster = self.extent(values, "cluster", (MAX_CLUSTER,) * 3)
        if (count := math.prod(cluster)) > MAX_CLUSTER:
            raise ProblemError(f"{count} blocks per cluster, more than {MAX_CLUSTER}")
        if any(blocks % size for blocks, size in zip(grid, cluster, strict=True)):
            raise ProblemError(f"a grid of {grid} blocks cannot be divided into clusters of {cluster}")
        return cluster

    def extent(
        self, values: tuple[records.Expr, ...], name: str, limits: tuple[int, int, int]
    ) -> tuple[int, int, int]:
        if not 1 <= len(values) <= 3:
            raise ProblemError(f"{name} takes one to three values")
        if (name, values) in self.extents:
            return self.extents[name, values]
        padded = (*values, 1, 1)[:3]
        x, y, z = (self.number(v, f"{name}.{a}", 1, m) for v, a, m in zip(padded, "xyz", limits, strict=True))
        if all(isinstance(value, int) for value in values):
            self.extents[name, values] = x, y, z
        return x, y, z

    def template_argument(self, text: str) -> str:
        """Evaluate sizes in braces in a template argument: `{n/32}`."""
        return str(evaluate(text[1:-1], self.names)) if text.startswith("{") and text.endswith("}") else text

    def pointer(self, argument: records.BufferArg) -> ops.BoundPointer:
        buffer = self.buffer(argument.buffer)
        low, high = -buffer.pad[0], buffer.count + buffer.pad[1]
        return ops.BoundPointer(
            buffer.name, self.number(argument.offset, "offset", low, high) * buffer.itemsize
        )

    def argument(self, argument: Any) -> ops.BoundArg:
        if isinstance(argument, records.BufferArg):
            return self.pointer(argument)
        if isinstance(argument, records.TensorMapArg):
            buffer = self.buffer(argument.tensor_map)
            place = self.pointer(records.BufferArg(buffer.name, argument.offset))
            room_bytes = buffer.size_bytes - place.offset_bytes + buffer.pad[1] * buffer.itemsize
            return bind_tensor_map(argument, buffer.record.dtype, place.offset_bytes, room_bytes, self.names)
        if isinstance(argument, records.PointersArg) and argument.pointers:
            members = tuple(self.pointer(member) for member in argument.pointers)
            data = self.scalar(argument.scalar) if argument.scalar is not None else None
            return ops.bind_pointers(argument, data, members)
        if isinstance(argument, records.ValueArg):
            return ops.BoundScalar(scalar_bytes(argument.dtype, self.value(argument.value)))
        if argument in self.buffers:
            return ops.BoundPointer(argument)
        if argument in self.problem.scalars:
            return ops.BoundScalar(self.scalar(argument))
        if argument in self.names:
            return ops.BoundScalar(scalar_bytes("int32", self.names[argument]))
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

    def range_bytes(
        self, buffer: ops.BoundBuffer, offset: records.Expr, count: records.Expr | None
    ) -> tuple[int, int]:
        """Offset and size in bytes of `count` elements (None: to the end), within the buffer."""
        start = self.number(offset, "offset", 0, buffer.count)
        length = buffer.count - start if count is None else self.number(count, "count", 0)
        if start + length > buffer.count:
            raise ProblemError(
                f"elements {start}..{start + length} of {buffer.name!r}, which has {buffer.count}"
            )
        return start * buffer.itemsize, length * buffer.itemsize

    def fill(self, step: records.Fill) -> ops.FillOp:
        buffer = self.written(step.fill)
        offset, size = self.range_bytes(buffer, step.offset, step.count)
        return ops.FillOp(
            buffer.name, offset, size, scalar_bytes(buffer.record.dtype, self.value(step.value))
        )

    def copy(self, step: records.Copy) -> ops.CopyOp:
        source, to = self.buffer(step.copy), self.written(step.to)
        offset, size = self.range_bytes(source, step.offset, step.count)
        to_offset = self.number(step.to_offset, "to_offset", 0, to.count) * to.itemsize
        if to_offset + size > to.size_bytes:
            raise ProblemError(f"the copy ends past {to.name!r}")
        return ops.CopyOp(source.name, offset, to.name, to_offset, size)

    def upload(self, step: records.Upload) -> ops.UploadOp:
        source = self.buffer(step.from_)
        offset, size = self.range_bytes(source, step.offset, step.count)
        self.symbols[step.upload] = None
        to_offset = self.number(step.to_offset, "to_offset") * source.itemsize
        return ops.UploadOp(step.upload, to_offset, source.name, offset, size)

    def swap(self, step: records.Swap) -> ops.SwapOp:
        first, second = (self.buffer(name) for name in step.swap)
        kinds = {(buffer.physical, buffer.record.dtype, buffer.pad) for buffer in (first, second)}
        if len(kinds) > 1:
            raise ProblemError(f"{first.name!r} and {second.name!r} differ in shape, dtype or pad")
        return ops.SwapOp(first.name, second.name)


def bind(
    problem: records.Problem, side: records.Side, sizes: Mapping[str, int], *, where: str = "plan"
) -> ops.Program:
    """The program for one side at one size setting.

    Raises:
        ProblemError: an unknown name, a value out of range, an access past a buffer's declared shape; `where`
            names the place, such as `plan[0].args[3]`.
    """
    bound = _Binder(problem, side, sizes)
    return ops.Program(
        buffers=bound.buffers,
        ops=tuple(bound.steps(side.plan, where)),  # fills in `entries` and `symbols`
        entry_points=tuple(bound.entries),
        symbols=tuple(bound.symbols),
        sizes=dict(sizes),
        records=problem.records,
    )


def launch_count(plan: Iterable[records.Step], names: Mapping[str, int]) -> int | None:
    """The number of launches of a plan, without binding them; None: it depends on data.

    `names`: see `names_of`.

    Raises:
        ProblemError: an unknown name in the bounds of a loop, or a step of zero.
    """
    total = 0
    for step in plan:
        if isinstance(step, records.WhileNonzero):
            return None
        total += isinstance(step, records.Launch)
        if isinstance(step, records.For):
            for value in loop_values(step, names):
                inner = launch_count(step.do, {**names, step.for_: value})
                if inner is None:
                    return None
                total += inner
    return total
