"""Drafts for Triton kernels from recorded launches, made by the code for CUDA kernels (`from_launches`).

The kernel is replaced by a CUDA stand-in with the same parameters and one access for each `tl.load`,
`tl.store` or atomic, such as `__global__ void k(float *x, int n) { value += x[i]; }`. Compile-time constants
that may be sizes become parameters at its end. Afterwards the draft's launch is turned back into Triton's.
Not covered: kernels that nothing recorded (there is no draft for them).
"""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import pairwise

from kcurate.draft.captured.expression_choice import Trust
from kcurate.draft.captured.from_launches import recorded
from kcurate.draft.size_settings import SMALL
from kcurate.draft.sketch import Draft, nothing
from kcurate.problem.dtypes import numpy_dtype
from kcurate.problem.triton_launch import C_TYPES, SCALARS, TEXT, TYPES
from kcurate.records import (
    Arg,
    Capture,
    CapturedArg,
    CapturedLaunch,
    CapturedPointer,
    Expr,
    Kernel,
    KnownSide,
    Launch,
    Param,
    ValueArg,
)
from kcurate.suites.problems import tied
from kcurate.triton_source import parsed
from kcurate.triton_source.accesses import accesses
from kcurate.triton_source.configurations import STAGES

# The recorded kind of an argument that is None.
NULL = "none"
WARP_SIZE = 32
# Several dtypes have one type in Triton: reversed, so that the first wins.
DTYPE_OF_KIND = {kind: dtype for dtype, kind in reversed(list(TYPES.items()))}
_SUMS = frozenset({"sum", "dot", "cumsum", "associative_scan", "reduce", "cumprod", "dot_scaled"})
_CUDA_ACCESS = {
    "load": "value += {0}[i];",
    "store": "{0}[i] = value;",
    "atomic": "atomicAdd(&{0}[i], value);",
}


def of_triton(kernel: Kernel, code: str, capture: Capture, most_elements: int, trust: Trust) -> Draft:
    """The draft that the recorded launches of a kernel in Triton give."""
    kinds = list(zip(kernel.params, capture.params, strict=True))
    passed = [(param, kind) for param, kind in kinds if kind not in ("constexpr", NULL)]
    names = [param.name for param, kind in kinds if kind == "constexpr"]
    launches = [_without_nulls(launch) for launch in _fit_for_one_plan(capture.launches, names)]
    if why := _unsupported(passed, {name: launches[0].constexprs[name] for name in names}):
        return nothing(kernel, why)
    sizes = tuple(name for name in names if _may_be_size([launch.constexprs[name] for launch in launches]))
    params = [
        *(Param(param.name, _c_type(kind), pointer=kind.startswith("*")) for param, kind in passed),
        *(Param(name, "int") for name in sizes),
    ]
    widths = [numpy_dtype(DTYPE_OF_KIND[kind.removeprefix("*")]).itemsize for _, kind in passed]
    separated = (_one_buffer_per_tensor(launch, widths) for launch in launches)
    cuda_launches = tuple(_cuda_launch(launch, names, sizes) for launch in separated)
    draft = recorded(
        replace(kernel, params=tuple(params)),
        _cuda_stand_in(kernel.name, params, code),
        replace(capture, launches=cuda_launches),
        None,
        trust,
        most_elements,
    )
    nulls = tuple(param.name for param, kind in kinds if kind == NULL)
    nulls += tuple(name for name in names if launches[0].constexprs[name] is None)
    sides = {
        name: _triton_side(side, names, sizes, launches[0], nulls) for name, side in draft.known.sides.items()
    }
    constants = {tuple(sorted(configuration.constexprs.items())) for configuration in kernel.configurations}
    known = tied(replace(draft.known, sides=sides), code)
    return replace(draft, known=known, one_of_several=len(constants) > 1)


def _unsupported(
    passed: Sequence[tuple[Param, str]], constexprs: Mapping[str, int | float | bool | str | None]
) -> str | None:
    """Why a plan cannot make a launch with arguments of these types and these constants; None: it can."""
    for param, kind in passed:
        if kind.removeprefix("*") not in C_TYPES:
            return f"the program passes {kind} for {param.name}"
        if not kind.startswith("*") and DTYPE_OF_KIND[kind] not in SCALARS:
            return f"plans cannot pass {param.name}, of the type {kind}"
    for name, value in constexprs.items():
        if isinstance(value, str) and not TEXT.fullmatch(f"'{value}'"):
            return f"plans cannot set {name} to {value!r}"
    return None


def _c_type(kind: str) -> str:
    return C_TYPES[kind.removeprefix("*")] + " *" * kind.startswith("*")


def _fit_for_one_plan(launches: Sequence[CapturedLaunch], names: Sequence[str]) -> list[CapturedLaunch]:
    """The launches that differ from the largest one in integers alone, so that one plan can produce them all.

    Warps and stages, which many programs choose by a row's length, are those of the largest launch.
    """
    largest = max(launches, key=lambda launch: sum(buffer.size_bytes for buffer in launch.buffers))
    numbers = {name for name in names if type(largest.constexprs[name]) is int}
    constants = {name: largest.constexprs[name] for name in names if name not in numbers}

    def same(launch: CapturedLaunch) -> bool:
        return all(launch.constexprs[name] == value for name, value in constants.items())

    return [largest, *(launch for launch in launches if launch is not largest and same(launch))]


def _may_be_size(values: Sequence[object]) -> bool:
    """Whether a constant may be a size, or follow from one: it varies, or is hardly a block's extent."""
    whole = [value for value in values if type(value) is int]
    if len(whole) < len(values):
        return False
    return len(set(whole)) > 1 or (whole[0] > SMALL and whole[0].bit_count() > 1)


def _one_buffer_per_tensor(launch: CapturedLaunch, widths: Sequence[int]) -> CapturedLaunch:
    """The launch with one buffer a tensor, of the tensor's length, unless tensors overlap."""
    args, buffers = list(launch.args), list(launch.buffers)
    for number, buffer in enumerate(launch.buffers):
        ends: dict[int, int] = {}
        for arg, width in zip(args, widths, strict=True):
            for pointer in arg.pointers:
                if pointer.buffer == number:
                    end = pointer.offset + width * _span_elements(arg)
                    ends[pointer.offset] = max(ends.get(pointer.offset, 0), end)
        ranges = sorted(ends.items())
        if ranges == [(0, buffer.size_bytes)] or any(end > then[0] for (_, end), then in pairwise(ranges)):
            continue
        for start, end in ranges:
            before = CapturedPointer(0, number, start)
            after = (CapturedPointer(0, len(buffers)),)
            args = [replace(arg, pointers=after) if before in arg.pointers else arg for arg in args]
            buffers.append(replace(buffer, size_bytes=end - start))
    return replace(launch, args=tuple(args), buffers=tuple(buffers))


def _span_elements(arg: CapturedArg) -> int:
    """The elements from a tensor's first one to its last one."""
    shape, strides = arg.shape or (), arg.strides or ()
    return 1 + sum((extent - 1) * stride for extent, stride in zip(shape, strides, strict=True) if extent > 1)


def _without_nulls(launch: CapturedLaunch) -> CapturedLaunch:
    """The launch without the arguments that are `None`: those of no bytes."""
    return replace(launch, args=tuple(arg for arg in launch.args if arg.hex))


def _cuda_launch(launch: CapturedLaunch, names: Sequence[str], sizes: Sequence[str]) -> CapturedLaunch:
    """The launch with the sizes among its constants as arguments; its block has the extents of the others."""
    values = {name: value for name in names if type(value := launch.constexprs[name]) is int}
    block = sorted((value for name, value in values.items() if name not in sizes and value > 1), reverse=True)
    size_args = (CapturedArg(int(values[name]).to_bytes(4, "little", signed=True).hex()) for name in sizes)
    extents = ([*block, 1, 1, 1])[:3]
    return replace(
        launch, block=(extents[0], extents[1], extents[2]), args=(*launch.args, *size_args), shared_bytes=0
    )


def _cuda_stand_in(name: str, params: Sequence[Param], code: str) -> str:
    """The kernel in CUDA as far as drafts read it; sums are loops over every size."""
    functions = {node.name: node for node in parsed(code).body if isinstance(node, ast.FunctionDef)}
    marked = {param.name for param in params if param.pointer}
    accessed = [(param, kind) for param, kind in accesses(functions[name], functions) if param in marked]
    body = [_CUDA_ACCESS[kind].format(param) for param, kind in dict.fromkeys(accessed)]
    called = (node.func for node in ast.walk(parsed(code)) if isinstance(node, ast.Call))
    if any(isinstance(function, ast.Attribute) and function.attr in _SUMS for function in called):
        body += [f"for (int k = 0; k < {param.name}; ++k) {{}}" for param in params if param.type == "int"]
    declared = ", ".join(f"{param.type} {param.name}" for param in params)
    return f"__global__ void {name}({declared}) {{\n" + "\n".join(body) + "\n}\n"


def _triton_side(
    side: KnownSide,
    names: Sequence[str],
    sizes: Sequence[str],
    launch: CapturedLaunch,
    nulls: tuple[str, ...],
) -> KnownSide:
    """The side with its launch in Triton again."""
    steps = []
    for step in side.plan:
        if isinstance(step, Launch):
            count = len(step.args) - len(sizes)
            values = dict(zip(sizes, map(_plan_value, step.args[count:]), strict=True))
            constexprs = {
                name: f"'{value}'" if isinstance(value, str) else values.get(name, value)
                for name in names
                if (value := launch.constexprs[name]) is not None
            }
            step = Launch(
                step.launch,
                step.grid,
                (),
                step.args[:count],
                constexprs=constexprs,
                num_warps=launch.block[0] // WARP_SIZE,
                num_stages=launch.num_stages or STAGES,
                nulls=nulls,
            )
        steps.append(step)
    return replace(side, plan=tuple(steps), language="triton")


def _plan_value(arg: Arg) -> Expr | float:
    return arg.value if isinstance(arg, ValueArg) else str(arg)
