"""Library types have the size, alignment and traits on the emulator that they have with NVRTC.

Otherwise a side could be one program on a GPU and another one on the emulator. NVRTC's values are read from
its PTX, and the emulator's compiler asserts them.
"""

from __future__ import annotations

import re
import struct
from itertools import product

import pytest

from kcurate.backends.base import Compiled, EntryPoint
from kcurate.backends.cuda import nvrtc
from kcurate.backends.emulator.compiler import EmulatorCompiler

WORDS = re.compile(r"\S+")
HEADERS = WORDS.findall("""
cooperative_groups.h cuda/atomic cuda/barrier cuda/pipeline mma.h cuda_fp16.h cuda_bf16.h cuda_fp8.h
cuComplex.h cuda/std/array cuda/std/utility cuda/std/type_traits cuda/std/limits cuda/functional
cub/block/block_discontinuity.cuh cub/block/block_exchange.cuh cub/block/block_histogram.cuh
cub/block/block_load.cuh cub/block/block_radix_sort.cuh cub/block/block_reduce.cuh cub/block/block_scan.cuh
cub/block/block_store.cuh cub/warp/warp_reduce.cuh cub/warp/warp_scan.cuh
""")
SIZES = ("sizeof(T)", "alignof(T)")
TRAITS = (
    "__is_empty(T)", "__is_aggregate(T)", "__is_standard_layout(T)", "__is_trivially_copyable(T)",
    "__is_trivially_constructible(T)", "__is_trivially_constructible(T, const T &)",
    "__is_trivially_assignable(T &, const T &)", "__is_constructible(T)", "__is_constructible(T, const T &)",
    "__is_assignable(T &, const T &)", "__is_constructible(T, int)", "__is_literal_type(T)",
    "__has_unique_object_representations(T)", "__is_enum(T)", "__is_polymorphic(T)", "__is_final(T)",
)  # fmt: skip
WMMA = {
    "__half": ((16, 16, 16), (32, 8, 16), (8, 32, 16)),
    "__nv_bfloat16": ((16, 16, 16), (32, 8, 16), (8, 32, 16)),
    "signed char": ((16, 16, 16), (32, 8, 16), (8, 32, 16)),
    "unsigned char": ((16, 16, 16), (32, 8, 16), (8, 32, 16)),
    "wmma::precision::tf32": ((16, 16, 8),),
    "double": ((8, 8, 4),),
}
FRAGMENTS = [
    f"wmma::fragment<wmma::{use}, {m}, {n}, {k}, {element}, wmma::{layout}>"
    for element, shapes in WMMA.items()
    for m, n, k in shapes
    for use in ("matrix_a", "matrix_b")
    for layout in ("row_major", "col_major")
] + [
    f"wmma::fragment<wmma::accumulator, {shape}, {element}>"
    for shape, element in (
        ("16, 16, 16", "float"), ("32, 8, 16", "__half"), ("8, 32, 16", "int"), ("16, 16, 8", "float"),
        ("8, 8, 4", "double"),
    )
]  # fmt: skip
# Whole agreement: size, alignment, traits.
ALIKE = [
    *WORDS.findall("""
    cg::thread_block cg::grid_group cg::cluster_group cg::thread_group cg::coalesced_group
    cg::thread_block_tile<32> cg::thread_block_tile<4> cg::thread_block_tile<1>
    cg::cluster_group::arrival_token cuda::std::plus<int> cuda::atomic<int> cuda::atomic<double>
    cuda::pipeline<cuda::thread_scope_thread> cuda::pipeline<cuda::thread_scope_block>
    cuda::barrier<cuda::thread_scope_device> cuda::aligned_size_t<16> cuda::thread_scope
    cuda::std::plus<> cuda::maximum<int> __half __half_raw __nv_bfloat16 __nv_fp8_e4m3
    __nv_fp8x4_e5m2 cuFloatComplex cuDoubleComplex float4 double4 dim3 uint3 char3 longlong2 wchar_t
    size_t int64_t
    """),
    "decltype(cg::tiled_partition<32>(cg::this_thread_block()))",
    "decltype(cg::tiled_partition<4>(cg::tiled_partition<16>(cg::this_thread_block())))",
    "decltype(cg::tiled_partition(cg::this_thread_block(), 8))",
    "decltype(cg::coalesced_threads())",
    "decltype(cg::binary_partition(cg::coalesced_threads(), true))",
    "cuda::std::array<int, 3>",
    "decltype(__ballot_sync(0, 0))",
    "decltype(atomicAdd((float *)nullptr, 0.0f))",
    *FRAGMENTS,
    *(
        f"cub::{name}::TempStorage"
        for t, n in product(("char", "int", "double", "float4"), (1, 32, 33, 160, 512))
        for name in (
            f"BlockReduce<{t}, {n}>",
            f"BlockReduce<{t}, {n}, cub::BLOCK_REDUCE_RAKING>",
            f"BlockReduce<{t}, {n}, cub::BLOCK_REDUCE_RAKING_COMMUTATIVE_ONLY>",
            f"BlockScan<{t}, {n}>",
            f"BlockScan<{t}, {n}, cub::BLOCK_SCAN_RAKING_MEMOIZE>",
            f"BlockScan<{t}, {n}, cub::BLOCK_SCAN_WARP_SCANS>",
            f"BlockDiscontinuity<{t}, {n}>",
        )
    ),
    *(
        f"cub::{name}::TempStorage"
        for t, n, items in product(("char", "double"), (32, 96), (1, 4, 7))
        for name in (
            f"BlockExchange<{t}, {n}, {items}>",
            f"BlockExchange<{t}, {n}, {items}, true>",
            f"BlockLoad<{t}, {n}, {items}>",
            f"BlockLoad<{t}, {n}, {items}, cub::BLOCK_LOAD_TRANSPOSE>",
            f"BlockLoad<{t}, {n}, {items}, cub::BLOCK_LOAD_WARP_TRANSPOSE_TIMESLICED>",
            f"BlockStore<{t}, {n}, {items}, cub::BLOCK_STORE_VECTORIZE>",
            f"BlockStore<{t}, {n}, {items}, cub::BLOCK_STORE_TRANSPOSE>",
            f"BlockStore<{t}, {n}, {items}, cub::BLOCK_STORE_WARP_TRANSPOSE_TIMESLICED>",
            f"BlockRadixSort<{t}, {n}, {items}>",
            f"BlockRadixSort<{t}, {n}, {items}, double>",
            f"BlockRadixSort<{t}, {n}, {items}, cub::NullType, 6, false, cub::BLOCK_SCAN_RAKING>",
        )
    ),
    *(
        f"cub::{kind}<{t}, {n}>::TempStorage"
        for kind, t, n in product(("WarpReduce", "WarpScan"), ("char", "int", "double"), (1, 2, 5, 8, 20, 32))
    ),
    "cub::BlockHistogram<unsigned char, 128, 4, 256>::TempStorage",
    "cub::BlockHistogram<unsigned char, 64, 1, 1024>::TempStorage",
    "cub::BlockHistogram<unsigned char, 128, 4, 256, cub::BLOCK_HISTO_ATOMIC>::TempStorage",
]  # fmt: skip
# Agreement of size and alignment alone.
AS_LARGE = WORDS.findall("""
cuda::atomic<uint8_t> cuda::atomic<short> cuda::atomic_ref<int>
cuda::barrier<cuda::thread_scope_block> cuda::pipeline_shared_state<cuda::thread_scope_block,1>
cuda::pipeline_shared_state<cuda::thread_scope_block,4> cuda::std::pair<int,char> __half2
__nv_bfloat162 cub::KeyValuePair<char,double> cub::WarpReduce<int> cub::WarpScan<double,8>
cub::BlockReduce<int,128> cub::BlockScan<int,128>
cub::BlockScan<int,128,cub::BLOCK_SCAN_WARP_SCANS> decltype(threadIdx) decltype(gridDim)
""")


def text(types: list[str], questions: tuple[str, ...], values: dict[int, list[int]] | None) -> str:
    """A program that holds what a compiler answers (`values` None), or asserts the answers."""
    lines = [f"#include <{header}>" for header in HEADERS]
    lines += ["namespace cg = cooperative_groups;", "using namespace nvcuda;"]
    for at, name in enumerate(types):
        lines.append(f"using T{at} = {name};")
        asked = [re.sub(r"\bT\b", f"T{at}", question) for question in questions]
        if values is None:
            lines.append(
                f"__device__ unsigned values_{at}[] = {{{', '.join(f'unsigned({q})' for q in asked)}}};"
            )
        else:
            lines += [
                f'static_assert(unsigned({question}) == {value}, "{name}: {question} is {value}");'
                for question, value in zip(asked, values[at], strict=True)
            ]
    lines.append('extern "C" __global__ void f(int *x) { x[0] = 1; }')
    return "\n".join(lines)


def answers(types: list[str], questions: tuple[str, ...]) -> dict[int, list[int]]:
    """What NVRTC answers, for each type by its place."""
    made = nvrtc.compile_cubin(text(types, questions, None))
    assert made.cubin is not None, made.log
    values: dict[int, list[int]] = {}
    for at, size, listed in re.findall(r"\.b8 values_(\d+)\[(\d+)\](?: = \{([^}]*)\})?;", made.ptx):
        data = bytes(int(byte) & 0xFF for byte in listed.split(",") if byte.strip())
        values[int(at)] = list(struct.unpack(f"<{len(questions)}I", data.ljust(int(size), b"\0")))
    return values


@pytest.mark.parametrize(
    ("types", "questions"),
    [(ALIKE, SIZES + TRAITS), (AS_LARGE, SIZES)],
    ids=["all of it", "size and alignment"],
)
def test_library_types_are_as_with_nvrtc(types: list[str], questions: tuple[str, ...]) -> None:
    code = text(types, questions, answers(types, questions))
    made = EmulatorCompiler().compile(code, [EntryPoint("f")])
    assert isinstance(made, Compiled), made.log
