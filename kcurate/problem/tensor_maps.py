"""TMA tensor maps: an argument of a plan bound to numbers, and the rules of the driver's encoder.

Source of the rules: CUDA Driver API, cuTensorMapEncodeTiled. Not covered: encoding
(`kcurate.backends.cuda.tensor_maps`, `kcurate.backends.emulator.tensor_maps`).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from kcurate.errors import ProblemError
from kcurate.problem.dtypes import is_float, numpy_dtype
from kcurate.problem.expressions import evaluate
from kcurate.records import Expr, TensorMapArg

# The size of a CUtensorMap.
MAP_BYTES = 128
MAX_RANK = 5
MAX_BOX = 256
MAX_ELEMENT_STRIDE = 8
MAX_EXTENT = 1 << 32
MAX_STRIDE_BYTES = 1 << 40
_SPAN_BYTES = {"none": 0, "16B": 16, "32B": 32, "64B": 64, "128B": 128}


@dataclass(frozen=True)
class BoundTensorMap:
    """A tensor map over `buffer` from `offset_bytes` on; the innermost axis first, `strides` in bytes."""

    buffer: str
    offset_bytes: int
    dtype: str
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    box: tuple[int, ...]
    element_strides: tuple[int, ...]
    swizzle: str
    interleave: str
    fill: str


def bind_tensor_map(
    arg: TensorMapArg, dtype: str, offset_bytes: int, room_bytes: int, names: Mapping[str, int]
) -> BoundTensorMap:
    """The map with every expression evaluated; `room_bytes`: bytes of the buffer after the offset.

    Raises:
        ProblemError: the driver would refuse it, or it reaches past the buffer.
    """
    itemsize = numpy_dtype(dtype).itemsize

    def numbers(values: tuple[Expr, ...]) -> tuple[int, ...]:
        return tuple(evaluate(value, names) for value in values)

    shape = numbers(arg.shape)
    element_strides = numbers(arg.element_strides or (1,) * len(shape))
    dense = tuple(itemsize * math.prod(shape[:axis]) for axis in range(1, len(shape)))
    strides = numbers(arg.strides) if arg.strides else dense
    bound = BoundTensorMap(
        arg.tensor_map, offset_bytes, dtype, shape, strides, numbers(arg.box), element_strides,
        arg.swizzle, arg.interleave, arg.fill,
    )  # fmt: skip
    check_rules(bound)
    reach = itemsize * shape[0] + sum(s * (n - 1) for s, n in zip(strides, shape[1:], strict=True))
    if reach > room_bytes:
        raise ProblemError(f"the tensor map spans {reach} bytes of {bound.buffer!r}, which has {room_bytes}")
    return bound


def check_rules(bound: BoundTensorMap) -> None:
    """Check a map by the rules of the driver's encoder.

    Raises:
        ProblemError: the encoder would refuse it.
    """
    rank, itemsize = len(bound.shape), numpy_dtype(bound.dtype).itemsize
    for name, values, most in (
        ("shape", bound.shape, MAX_EXTENT),
        ("box", bound.box, MAX_BOX),
        ("element_strides", bound.element_strides, MAX_ELEMENT_STRIDE),
        ("strides", bound.strides, MAX_STRIDE_BYTES),
    ):
        for axis, value in enumerate(values):
            if not 1 <= value <= most:
                raise ProblemError(f"the tensor map's {name}[{axis}] is {value}, outside 1..{most}")
    low = 1 if bound.interleave == "none" else 3
    if not low <= rank <= MAX_RANK:
        raise ProblemError(f"a tensor map has {low} to {MAX_RANK} axes here, not {rank}")
    if {len(bound.box), len(bound.element_strides), len(bound.strides) + 1} != {rank}:
        raise ProblemError("box, element_strides and strides (one fewer) must have as many values as shape")
    alignment = 32 if bound.interleave == "32B" else 16
    if bound.offset_bytes % alignment:
        raise ProblemError(
            f"the tensor map starts at byte {bound.offset_bytes}, not a multiple of {alignment}"
        )
    for axis, stride in enumerate(bound.strides):
        if stride % alignment or stride >= MAX_STRIDE_BYTES:
            raise ProblemError(
                f"the tensor map's strides[{axis}] is {stride} bytes, not a multiple of {alignment}"
            )
    inner = bound.box[0] * itemsize
    if inner % 16:
        raise ProblemError(f"the inner row of the box has {inner} bytes, not a multiple of 16")
    span = _SPAN_BYTES[bound.swizzle]
    if span and bound.interleave == "none" and inner > span:
        raise ProblemError(f"the inner row of the box has {inner} bytes, more than the swizzle's {span}")
    if bound.interleave == "32B" and bound.swizzle != "32B":
        raise ProblemError("interleave 32B needs swizzle 32B")
    if bound.fill == "nan" and not is_float(bound.dtype):
        raise ProblemError(f"fill nan needs a floating-point type, not {bound.dtype}")
