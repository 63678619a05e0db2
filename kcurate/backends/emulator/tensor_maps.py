"""TMA tensor maps in the emulator's layout, which is that of `include/kcurate/tensor_map.h`.

Not covered: copying boxes (`runtime/boxes.h`). Interleaved maps are not emulated.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping

from kcurate.backends.base import KernelFault
from kcurate.errors import ProblemError
from kcurate.problem.dtypes import numpy_dtype
from kcurate.problem.tensor_maps import MAP_BYTES, MAX_RANK, BoundTensorMap, check_rules

# KCU_TENSOR_MAP and the numbers of KcuTensorType. As on a GPU (`kcurate.backends.cuda.tensor_maps`), types
# that TMA does not know are copied as integers of the same size.
_MARK = 0x70616D2D75636BFF
_TYPES: Mapping[str, int] = {
    "uint16": 1, "int16": 1, "uint32": 2, "int32": 3, "uint64": 4, "int64": 4, "float16": 5, "float32": 6,
    "float64": 7, "bfloat16": 8,
}  # fmt: skip
_BYTES = 0
_FLOATS = range(5, 9)
_SWIZZLES = {"none": 0, "32B": 1, "64B": 2, "128B": 3}
_LAYOUT = struct.Struct("<12Q5H5B4B13x")
assert _LAYOUT.size == MAP_BYTES


def encode(shape: BoundTensorMap, address: int) -> bytes:
    """The 128 bytes of a `CUtensorMap` over memory that starts at `address`.

    Raises:
        KernelFault: the driver would reject it, or the emulator has no such map.
    """
    try:
        check_rules(shape)
    except ProblemError as error:
        raise KernelFault("launch_error", error.what) from None
    kind = _TYPES.get(shape.dtype, _BYTES)
    if shape.interleave != "none":
        what = f"the emulator has no tensor maps with interleave {shape.interleave}"
        raise KernelFault("unsupported", what)
    if shape.fill == "nan" and kind not in _FLOATS:
        raise KernelFault("launch_error", f"the driver has no tensor map of {shape.dtype} with fill nan")
    if address % 16:
        raise KernelFault("launch_error", f"a tensor map over address {address:#x}, not a multiple of 16")
    itemsize = numpy_dtype(shape.dtype).itemsize
    unused_axes = [0] * (MAX_RANK - len(shape.shape))
    return _LAYOUT.pack(
        _MARK, address,
        *shape.shape, *unused_axes,
        itemsize, *shape.strides, *unused_axes,
        *shape.box, *unused_axes,
        *shape.element_strides, *unused_axes,
        len(shape.shape), kind, _SWIZZLES[shape.swizzle], int(shape.fill == "nan"),
    )  # fmt: skip
