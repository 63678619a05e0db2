"""The headers of device code: which a side may include, which extract keeps, which the emulator has.

No side includes anything else, and no file: types, intrinsics, cooperative groups, tensor cores, the basics
of the CUDA C++ library, and what code includes out of habit. Not covered: what stands in them (the toolkit,
`kcurate.backends.cuda.host_headers`, `kcurate/backends/emulator/include/`).
"""

from __future__ import annotations

from collections.abc import Mapping

# side: a side may include it; kept: extract leaves its include in a kernel's file (the others are the host's
# business, or replaced by the shim); emulated: the emulator has it; sleeps: its waiting loops sleep and read
# clocks themselves.
_TABLE: Mapping[str, str] = {
    "side kept emulated": """
        cuda_fp16.h cuda_bf16.h mma.h cuda_pipeline_primitives.h math_constants.h cuComplex.h
        cooperative_groups.h cooperative_groups/reduce.h cooperative_groups/scan.h
        cooperative_groups/memcpy_async.h cuda/atomic cuda/std/atomic cuda/std/type_traits cuda/std/cstdint
        cuda/std/limits cuda/std/cmath cuda/std/array cuda/std/utility cuda/std/bit
    """,
    "side kept emulated sleeps": "cuda_pipeline.h",
    "side kept sleeps": "cuda_awbarrier.h cuda/pipeline cuda/barrier",
    "side kept": """
        cuda_fp8.h cuda_awbarrier_primitives.h cuda/std/tuple cuda/std/cassert cuda/std/complex
    """,
    "side emulated": """
        vector_types.h vector_functions.h cuda_runtime.h cuda_runtime_api.h device_launch_parameters.h
        device_functions.h cuda.h sm_20_intrinsics.h sm_30_intrinsics.h device_atomic_functions.h
        stdint.h cstdint math.h cmath float.h cfloat limits.h climits limits type_traits stddef.h cstddef
        math_functions.h
    """,
    "kept emulated": "cuda/std/cstddef",
}
# Libraries of device code; extract keeps whatever is included of them.
LIBRARIES = ("cooperative_groups/", "cuda/", "cub/")


def _with(mark: str) -> frozenset[str]:
    return frozenset(
        name for marks, names in _TABLE.items() if mark in marks.split() for name in names.split()
    )


IN_SIDES, KEPT, EMULATED, SLEEPING = map(_with, ("side", "kept", "emulated", "sleeps"))


def kept(name: str) -> bool:
    """Whether extract leaves the include of a header in a kernel's file."""
    return name in KEPT or name.startswith(LIBRARIES)
