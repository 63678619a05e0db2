"""TMA tensor maps, encoded by the driver (CUDA Driver API, cuTensorMapEncodeTiled)."""

from __future__ import annotations

import ctypes
from collections.abc import Mapping

from cuda.bindings import driver as cu

from kcurate.backends.cuda.driver import call
from kcurate.problem.tensor_maps import MAP_BYTES, BoundTensorMap

# Types that TMA does not know are copied as integers of the same size.
_TYPES: Mapping[str, str] = {
    "uint8": "UINT8", "int8": "UINT8", "bool": "UINT8", "uint16": "UINT16", "int16": "UINT16",
    "uint32": "UINT32", "int32": "INT32", "uint64": "UINT64", "int64": "INT64", "float16": "FLOAT16",
    "float32": "FLOAT32", "float64": "FLOAT64", "bfloat16": "BFLOAT16",
}  # fmt: skip
_FILL = {"zeros": "NONE", "nan": "NAN_REQUEST_ZERO_FMA"}


def encode(shape: BoundTensorMap, address: int) -> bytes:
    """The 128 bytes of a `CUtensorMap` over memory that starts at `address`.

    Raises:
        KernelFault: the driver rejects it.
    """
    kind = getattr(cu.CUtensorMapDataType, f"CU_TENSOR_MAP_DATA_TYPE_{_TYPES.get(shape.dtype, 'UINT8')}")
    encoded = call(
        cu.cuTensorMapEncodeTiled(
            kind,
            len(shape.shape),
            address,
            [cu.cuuint64_t(extent) for extent in shape.shape],
            [cu.cuuint64_t(stride) for stride in shape.strides],
            [cu.cuuint32_t(extent) for extent in shape.box],
            [cu.cuuint32_t(stride) for stride in shape.element_strides],
            getattr(cu.CUtensorMapInterleave, f"CU_TENSOR_MAP_INTERLEAVE_{shape.interleave.upper()}"),
            getattr(cu.CUtensorMapSwizzle, f"CU_TENSOR_MAP_SWIZZLE_{shape.swizzle.upper()}"),
            cu.CUtensorMapL2promotion.CU_TENSOR_MAP_L2_PROMOTION_L2_256B,
            getattr(cu.CUtensorMapFloatOOBfill, f"CU_TENSOR_MAP_FLOAT_OOB_FILL_{_FILL[shape.fill]}"),
        )
    )
    return ctypes.string_at(int(encoded.getPtr()), MAP_BYTES)
