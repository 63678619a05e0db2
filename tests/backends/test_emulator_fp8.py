"""`cuda_fp8.h` on the emulator agrees with ml_dtypes, for every byte and for numbers of all sizes."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
from emulation import run

from kcurate.backends.base import Compiled, EntryPoint
from kcurate.backends.cuda.compiler import CudaCompiler

KINDS = {"e4m3": (ml_dtypes.float8_e4m3fn, 448.0), "e5m2": (ml_dtypes.float8_e5m2, 57344.0)}
RNG = np.random.default_rng(5)
EDGES = [0.0, -0.0, 448, 464, 465, 480, 57344, 61439, 61440, 1e30, -1e30, 2**-9, 2**-10, 2**-17, 1e-30]
NUMBERS = np.concatenate(
    [EDGES, RNG.standard_normal(200) * 2.0 ** RNG.integers(-20, 18, 200), [np.inf, -np.inf]]
).astype(np.float32)


def program(body: str) -> str:
    code = f"""#include <cuda_fp8.h>
    typedef unsigned char byte;
    extern "C" __global__ void f(const float *x, const byte *bytes, byte *out, float *back, int n)
    {{
        const int i = blockIdx.x * blockDim.x + threadIdx.x;
        if (i < n) {{ {body} }}
    }}"""
    assert isinstance(CudaCompiler().compile(code, [EntryPoint("f")]), Compiled)
    return code


def outputs(body: str, count: int, bytes_each: int = 1, x: np.ndarray = NUMBERS) -> tuple[np.ndarray, ...]:
    every = np.arange(256, dtype=np.uint8)
    out, back = np.zeros(max(count, 256) * bytes_each, np.uint8), np.zeros(1024, np.float32)
    found = run(program(body), x, every, out, back, np.int32(count), grid=16)
    return found[2][: count * bytes_each], found[3]


@pytest.mark.parametrize("kind", KINDS)
def test_every_byte_is_the_number_that_it_means(kind: str) -> None:
    body = f"__nv_fp8_{kind} y; y.__x = bytes[i]; back[i] = float(y);"
    _, back = outputs(body, 256)
    assert np.array_equal(
        back[:256], np.arange(256, dtype=np.uint8).view(KINDS[kind][0]).astype(np.float32), equal_nan=True
    )


@pytest.mark.parametrize("source", ["x[i]", "double(x[i])"])
@pytest.mark.parametrize("kind", KINDS)
def test_numbers_become_the_nearest_and_no_larger_than_the_largest(kind: str, source: str) -> None:
    dtype, most = KINDS[kind]
    found, _ = outputs(f"out[i] = __nv_fp8_{kind}({source}).__x;", NUMBERS.size)
    assert np.array_equal(found, NUMBERS.clip(-most, most).astype(dtype).view(np.uint8))


@pytest.mark.parametrize("kind", KINDS)
def test_without_saturation_what_is_too_large_is_no_number(kind: str) -> None:
    dtype, _ = KINDS[kind]
    body = f"out[i] = __nv_cvt_float_to_fp8(x[i], __NV_NOSAT, __NV_{kind.upper()});"
    found, _ = outputs(body, NUMBERS.size)
    wanted = NUMBERS.astype(dtype).astype(np.float32)
    assert np.array_equal(found.view(dtype).astype(np.float32), wanted, equal_nan=True)


def test_a_double_is_rounded_once() -> None:
    # Just above the middle of 1 and 1.125, by less than a float can tell.
    body = "out[i] = __nv_fp8_e4m3(1.0625 + 1e-12).__x + __nv_fp8_e4m3(1.0625).__x * 0;"
    found, _ = outputs(body, 1)
    assert found[0] == np.float32(1.125).astype(ml_dtypes.float8_e4m3fn).view(np.uint8)


@pytest.mark.parametrize("kind", KINDS)
def test_pairs_and_fours_lie_in_order(kind: str) -> None:
    body = f"""
        if (i % 4 == 0) {{
            const __nv_fp8x4_{kind} four(make_float4(x[i], x[i + 1], x[i + 2], x[i + 3]));
            *reinterpret_cast<__nv_fp8x4_{kind} *>(out + i) = four;
            const float4 again(four);
            back[i] = again.x; back[i + 1] = again.y; back[i + 2] = again.z; back[i + 3] = again.w;
            const __nv_fp8x2_{kind} two(__floats2half2_rn(x[i], x[i + 1])), same(make_float2(x[i], x[i + 1]));
            const __nv_fp8x2_{kind} third(__floats2bfloat162_rn(x[i], x[i + 1]));
            const __half2 halves = __half2(__nv_cvt_fp8x2_to_halfraw2(two.__x, __NV_{kind.upper()}));
            if (two.__x != same.__x || third.__x != same.__x || float(halves.y) != again.y) out[i] = 0x55;
        }}"""
    x = np.arange(1, 65, dtype=np.float32) / 4
    found, back = outputs(body, 64, x=x)
    assert np.array_equal(found.view(KINDS[kind][0]), x.astype(KINDS[kind][0]))
    assert np.array_equal(back[:64], x.astype(KINDS[kind][0]).astype(np.float32))
