"""One table of device headers: those that a side may include, extract keeps, and the emulator ships.

A side may include no other header. Extract keeps the includes of these headers in a kernel's file and adds no
others (what legacy code lacks is declared by `kcurate.cuda_source.standalone.shim`). Not covered: what the
headers contain (the toolkit, `kcurate.backends.cuda.host_headers`, `kcurate/backends/emulator/include/`).
"""

from __future__ import annotations

import re
from collections.abc import Mapping

# side: a side may include the header; kept: extract keeps its include in a kernel's file; emulated: the
# emulator has it.
_TABLE: Mapping[str, str] = {
    "side kept emulated": """
        cuda_fp16.h cuda_bf16.h cuda_fp8.h mma.h cuda_pipeline_primitives.h math_constants.h cuComplex.h
        cooperative_groups.h cooperative_groups/reduce.h cooperative_groups/scan.h
        cooperative_groups/memcpy_async.h cuda/atomic cuda/std/atomic cuda/std/type_traits cuda/std/cstdint
        cuda/std/limits cuda/std/cmath cuda/std/array cuda/std/utility cuda/std/bit cuda/std/cassert
        cuda/functional cuda/std/functional
        cub/block/block_discontinuity.cuh cub/block/block_exchange.cuh cub/block/block_histogram.cuh
        cub/block/block_load.cuh cub/block/block_radix_sort.cuh cub/block/block_reduce.cuh
        cub/block/block_scan.cuh cub/block/block_store.cuh
        cub/warp/warp_reduce.cuh cub/warp/warp_scan.cuh
        cuda_pipeline.h cuda/pipeline cuda/barrier
    """,
    "side kept": """
        cuda_awbarrier.h cuda_fp4.h cuda_awbarrier_primitives.h cuda/std/tuple cuda/std/complex cuda/ptx
        cub/block/block_adjacent_difference.cuh cub/block/block_merge_sort.cuh
        cub/block/block_radix_rank.cuh cub/block/block_run_length_decode.cuh cub/block/block_shuffle.cuh
        cub/warp/warp_exchange.cuh cub/warp/warp_load.cuh cub/warp/warp_merge_sort.cuh
        cub/warp/warp_store.cuh
    """,
    "side emulated": """
        vector_types.h vector_functions.h cuda_runtime.h cuda_runtime_api.h device_launch_parameters.h
        device_functions.h cuda.h sm_20_intrinsics.h sm_30_intrinsics.h device_atomic_functions.h
        stdint.h cstdint math.h cmath float.h cfloat limits.h climits limits type_traits stddef.h cstddef
        math_functions.h assert.h cassert
    """,
    "kept emulated": "cuda/std/cstddef",
}
# Libraries of device code; extract keeps whatever is included of them. A file of another project that lies in
# a folder of the name, such as `cuda/helper.h`, has another suffix.
_LIBRARY = re.compile(r"cooperative_groups/[\w/]+\.h|cuda/[\w/]+|cub/[\w/]+\.cuh")


def _with(mark: str) -> frozenset[str]:
    return frozenset(
        name for marks, names in _TABLE.items() if mark in marks.split() for name in names.split()
    )


IN_SIDES, KEPT, EMULATED = map(_with, ("side", "kept", "emulated"))


def kept(name: str) -> bool:
    """Whether extract leaves the include of a header in a kernel's file."""
    return name in KEPT or _LIBRARY.fullmatch(name) is not None
