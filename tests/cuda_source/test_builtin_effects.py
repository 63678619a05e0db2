"""Which of CUDA's functions only compute, only read, or do more."""

from __future__ import annotations

import pytest

from kcurate.cuda_source.semantics.builtin_effects import computes, only_reads

ARITHMETIC = """
__expf __fdividef __fmul_rn __dadd_rz __frsqrt_rn __popc __clzll __brev __mul24 __umulhi __dp4a __sad
__saturatef __float2half __half2float __float22half2_rn __hadd __hfma2 __hmax __vabsdiffu4 __double2int_rz
__hiloint2double sqrtf rsqrt rcbrtf fmaf fma fminf max abs fabsf powf atan2f log1p erfcf copysign floorf rint
make_float4 make_uchar2 make_longlong2 make_ulong4_16a make_double4_32a make_half2
make_bfloat162 make_cuComplex make_cuDoubleComplex static_cast int float double unsigned size_t
"""
LOADS = "__ldg __ldca __ldcg __ldcs __ldlu"
EFFECTS = """
__syncthreads __syncthreads_count __syncwarp __threadfence __threadfence_block __nanosleep
__shfl __shfl_sync __shfl_xor_sync __ballot __ballot_sync __any __any_sync __all __all_sync __activemask
__match_any_sync __reduce_add_sync __stcg __stcs __stwb __stwt __sincosf __ldcv __trap __brkpt
__assertfail __pm0 atomicAdd sincosf sincospi frexp modf remquo printf memcpy clock clock64 malloc make_pair
make_node update __pipeline_commit __prof_trigger __cvta_generic_to_shared reinterpret_cast
"""


@pytest.mark.parametrize("name", ARITHMETIC.split())
def test_arithmetic_computes(name: str) -> None:
    assert computes(name.encode())
    assert only_reads(name.encode())


@pytest.mark.parametrize("name", LOADS.split())
def test_loads_only_read(name: str) -> None:
    assert not computes(name.encode())
    assert only_reads(name.encode())


@pytest.mark.parametrize("name", EFFECTS.split())
def test_what_stores_waits_asks_other_threads_or_is_not_known_may_do_anything(name: str) -> None:
    assert not computes(name.encode())
    assert not only_reads(name.encode())
