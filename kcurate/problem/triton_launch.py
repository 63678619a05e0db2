"""Launches of a side in Triton: the types and alignment of their arguments, and their compile-time constants.

A pointer has the type of its buffer, a scalar that of its record; sizes and loop variables are `int32`. Not
covered: specialisations as text (`kcurate.triton_source.specialised`).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

from kcurate.errors import ProblemError
from kcurate.problem.expressions import evaluate
from kcurate.problem.ops import BoundArg, BoundBuffer, BoundPointer, BoundScalar
from kcurate.records import Arg, BufferArg, Expr, Launch, Problem, Side, ValueArg, steps
from kcurate.records.problem import BindTexture, Call, Language, Upload
from kcurate.triton_source import Parameter, kernels
from kcurate.triton_source.specialised import DIVISOR, Constant

# Triton's names of our dtypes.
TYPES: Mapping[str, str] = {
    "bool": "i1", "int8": "i8", "int16": "i16", "int32": "i32", "int64": "i64", "uint8": "u8",
    "uint16": "u16", "uint32": "u32", "uint64": "u64", "float16": "fp16", "bfloat16": "bf16",
    "float32": "fp32", "float64": "fp64", "float8_e4m3": "fp8e4nv", "float8_e5m2": "fp8e5",
    "int4x2": "u8", "uint4x2": "u8", "float4_e2m1x2": "u8", "float8_e8m0": "u8",
}  # fmt: skip
# The C++ names of Triton's types.
C_TYPES: Mapping[str, str] = {
    "i1": "bool", "i8": "signed char", "i16": "short", "i32": "int", "i64": "long long",
    "u8": "unsigned char", "u16": "unsigned short", "u32": "unsigned int", "u64": "unsigned long long",
    "fp16": "__half", "bf16": "__nv_bfloat16", "fp32": "float", "fp64": "double",
    "fp8e4nv": "__nv_fp8_e4m3", "fp8e5": "__nv_fp8_e5m2",
}  # fmt: skip
# A constant in quotes is text or a type (`'tl.float32'`); without quotes it is an expression.
TEXT = re.compile(r"'(?:tl\.)?\w*'")
# The types of number that a launch can pass.
SCALARS = frozenset({"int32", "int64", "uint32", "uint64", "float32", "float64"})


def refuse_for_language(step: Launch, language: Language) -> None:
    """Check that a launch has no fields of the other language.

    Raises:
        ProblemError: it has one.
    """
    plain = Launch(step.launch, step.grid, step.block)
    defaults = (plain.constexprs, plain.num_warps, plain.num_stages, plain.nulls)
    if language == "triton":
        if step.block or step.template or step.shared_bytes or step.cooperative or step.cluster:
            other = "block, template, shared_bytes, cooperative or cluster"
            raise ProblemError(f"a launch in Triton has no {other}", hint="num_warps says how many threads")
    elif (step.constexprs, step.num_warps, step.num_stages, step.nulls) != defaults:
        raise ProblemError("constexprs, num_warps, num_stages and nulls are for launches in Triton")


def constants_of(step: Launch, names: Mapping[str, int]) -> dict[str, Constant]:
    """The values of a launch's compile-time constants, including parameters that are `None`.

    Raises:
        ProblemError: an expression cannot be evaluated.
    """
    constants = {name: _constant(value, names) for name, value in step.constexprs.items()}
    return constants | dict.fromkeys(step.nulls)


def _constant(value: Expr | float | bool, names: Mapping[str, int]) -> Constant:
    if not isinstance(value, str):
        return value
    return value[1:-1] if TEXT.fullmatch(value) else evaluate(value, names)


def passed_arguments(
    args: Sequence[Arg], bound: Sequence[BoundArg], problem: Problem, buffers: Mapping[str, BoundBuffer]
) -> tuple[Parameter, ...]:
    """The arguments of a launch as Triton sees them.

    Raises:
        ProblemError: Triton has no such argument.
    """
    return tuple(_parameter(arg, value, problem, buffers) for arg, value in zip(args, bound, strict=True))


def _parameter(arg: Arg, bound: BoundArg, problem: Problem, buffers: Mapping[str, BoundBuffer]) -> Parameter:
    if isinstance(bound, BoundPointer):
        element = TYPES.get(buffers[bound.buffer].record.dtype)
        if element is None or not isinstance(arg, str | BufferArg):
            raise ProblemError(f"Triton has no pointers to {buffers[bound.buffer].record.dtype}")
        # Buffers are aligned to 256 bytes, so the offset alone decides whether 16 divides the address.
        return Parameter(f"*{element}", divisible=bound.offset_bytes % DIVISOR == 0)
    dtype: object = "int32"
    if isinstance(arg, ValueArg):
        dtype = arg.dtype
    elif isinstance(arg, str) and arg in problem.scalars:
        dtype = problem.scalars[arg].dtype
    if not isinstance(bound, BoundScalar) or not isinstance(dtype, str) or dtype not in SCALARS:
        raise ProblemError("a launch in Triton passes pointers and numbers of 32 or 64 bits")
    if "int" not in dtype:
        return Parameter(TYPES[dtype])
    value = int.from_bytes(bound.data, "little", signed=dtype.startswith("int"))
    return Parameter(TYPES[dtype], divisible=value % DIVISOR == 0, one=value == 1)


def check_triton(side: Side) -> Iterator[str]:
    """Errors of a side in Triton that can be seen in its text and plan."""
    try:
        kernels_by_name = kernels(side.code)
    except ProblemError:
        return  # the static checks report what is wrong with the text
    launches = 0
    for step in steps(side.plan):
        if isinstance(step, Upload | BindTexture | Call):
            yield f"a side in Triton cannot have the step {type(step).__name__}"
        if not isinstance(step, Launch):
            continue
        launches += 1
        kernel = kernels_by_name.get(step.launch)
        if kernel is None:
            yield f"the code has no function {step.launch!r}"
            continue
        passed = [name for name in kernel.passed if name not in step.nulls]
        if len(step.args) != len(passed):
            yield f"{step.launch}: {len(step.args)} arguments for {len(passed)} parameters"
        for name in sorted(step.constexprs.keys() - set(kernel.constants)):
            yield f"{step.launch} has no tl.constexpr parameter {name!r}"
        for name in step.nulls:
            if name not in (*kernel.passed, *kernel.constants) or name in step.constexprs:
                yield f"{step.launch}: {name!r} in nulls is no parameter, or has a value in constexprs"
        for name in kernel.constants:
            if name not in (*step.constexprs, *step.nulls) and name not in kernel.optional:
                yield f"{step.launch}: constexprs has no value for {name!r}"
    if not launches:
        yield "launches nothing"
