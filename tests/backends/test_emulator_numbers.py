"""Intrinsics on numbers agree with their definition: bits, rounding, halves, packed words."""

from __future__ import annotations

from functools import cache

import ml_dtypes
import numpy as np
import pytest
from emulation import Program, run

RNG = np.random.default_rng(11)
WORDS = np.concatenate(
    [
        RNG.integers(0, 1 << 32, 250, dtype=np.uint32),
        np.array([0, 1, 1 << 31, ~0 & 0xFFFFFFFF, 255, 65536], np.uint32),
    ]
)
X, Y = WORDS, RNG.permutation(WORDS)


@cache
def words() -> np.ndarray:
    """Every expression of `INTEGERS` for every pair `x`, `y` of words: (expressions, pairs) uint32."""
    lines = "\n".join(f"        out[{i} * n + i] = {e};" for i, e in enumerate(INTEGERS))
    code = f"""extern "C" __global__ void f(const unsigned *a, const unsigned *b, unsigned *out, int n) {{
        int i = blockIdx.x * blockDim.x + threadIdx.x;
        if (i >= n) return;
        unsigned x = a[i], y = b[i];
{lines}
    }}"""
    results = np.zeros((len(INTEGERS), X.size), np.uint32)
    return run(code, X, Y, results, np.int32(X.size), grid=8)[2]


def signed(values: np.ndarray) -> np.ndarray:
    return values.astype(np.uint32).view(np.int32).astype(np.int64)


def bit_reversed(value: int) -> int:
    return int(f"{value:032b}"[::-1], 2)


def permuted(x: int, y: int, selector: int) -> int:
    both = (y << 32 | x).to_bytes(8, "little")
    return int.from_bytes(bytes(both[selector >> 4 * i & 7] for i in range(4)), "little")


def parts(values: np.ndarray, kind: type) -> np.ndarray:
    return values.view(kind).astype(np.int64)


def packed(values: np.ndarray, kind: type) -> np.ndarray:
    return values.astype(kind).view(np.uint32)


def halves_by_bytes(half: type, byte: type, first: int) -> np.ndarray:
    """Two products of a half of x and a byte of y, from byte `first` on, and 7."""
    products = parts(X, half).reshape(-1, 2) * parts(Y, byte).reshape(-1, 4)[:, first : first + 2]
    return np.asarray(products.sum(1) + 7)


WIDE_X, WIDE_Y = X.astype(np.uint64), Y.astype(np.uint64)
INTEGERS = {
    "__popc(x)": [bin(x).count("1") for x in X.tolist()],
    "__clz(x)": [32 - x.bit_length() for x in X.tolist()],
    "__ffs(x)": [(x & -x).bit_length() for x in X.tolist()],
    "__brev(x)": [bit_reversed(x) for x in X.tolist()],
    "__umulhi(x, y)": WIDE_X * WIDE_Y >> 32,
    "__mulhi(x, y)": signed(X) * signed(Y) >> 32,
    "__mul24(x, y)": (signed(X << 8) >> 8) * (signed(Y << 8) >> 8),
    "__umul24(x, y)": (WIDE_X & 0xFFFFFF) * (WIDE_Y & 0xFFFFFF),
    "__byte_perm(x, y, 0x3715)": [
        permuted(x, y, 0x3715) for x, y in zip(X.tolist(), Y.tolist(), strict=True)
    ],
    # Unlike prmt's, its selectors have three bits.
    "__byte_perm(x, y, 0xbb99)": [
        permuted(x, y, 0x3311) for x, y in zip(X.tolist(), Y.tolist(), strict=True)
    ],
    "__funnelshift_l(x, y, 37)": (WIDE_Y << 32 | WIDE_X) << 5 >> 32,
    "__funnelshift_rc(x, y, 32)": Y,
    "__sad(x, y, 1u)": np.abs(signed(X) - signed(Y)) + 1,
    "__uhadd(x, y)": (WIDE_X + WIDE_Y) >> 1,
    "__dp4a((int)x, (int)y, 7)": (parts(X, np.int8) * parts(Y, np.int8)).reshape(-1, 4).sum(1) + 7,
    "__dp4a(x, y, 7u)": (parts(X, np.uint8) * parts(Y, np.uint8)).reshape(-1, 4).sum(1) + 7,
    "__dp4a(*(uchar4 *)&x, *(uchar4 *)&y, 7u)": (parts(X, np.uint8) * parts(Y, np.uint8))
    .reshape(-1, 4)
    .sum(1)
    + 7,
    "__dp2a_lo((int)x, (int)y, 7)": halves_by_bytes(np.int16, np.int8, 0),
    "__dp2a_hi((int)x, (int)y, 7)": halves_by_bytes(np.int16, np.int8, 2),
    "__dp2a_lo(x, y, 7u)": halves_by_bytes(np.uint16, np.uint8, 0),
    "__dp2a_hi(*(ushort2 *)&x, *(uchar4 *)&y, 7u)": halves_by_bytes(np.uint16, np.uint8, 2),
    "__vadd4(x, y)": packed(parts(X, np.uint8) + parts(Y, np.uint8), np.uint8),
    "__vaddus2(x, y)": packed(np.minimum(parts(X, np.uint16) + parts(Y, np.uint16), 65535), np.uint16),
    "__vsubss4(x, y)": packed(np.clip(parts(X, np.int8) - parts(Y, np.int8), -128, 127), np.int8),
    "__vmaxs2(x, y)": packed(np.maximum(parts(X, np.int16), parts(Y, np.int16)), np.int16),
    "__vminu4(x, y)": packed(np.minimum(parts(X, np.uint8), parts(Y, np.uint8)), np.uint8),
    "__vavgu4(x, y)": packed(parts(X, np.uint8) + parts(Y, np.uint8) + 1 >> 1, np.uint8),
    "__vsadu4(x, y)": np.abs(parts(X, np.uint8) - parts(Y, np.uint8)).reshape(-1, 4).sum(1),
    "__vcmpgtu2(x, y)": packed(np.where(parts(X, np.uint16) > parts(Y, np.uint16), 65535, 0), np.uint16),
    "__vimax3_s32(x, y, 5)": np.maximum(np.maximum(signed(X), signed(Y)), 5),
    "__vimin3_u16x2(x, y, 0x40004000u)": packed(
        np.minimum(np.minimum(parts(X, np.uint16), parts(Y, np.uint16)), 0x4000), np.uint16
    ),
    "__viaddmax_s16x2(x, y, x)": packed(
        np.maximum((parts(X, np.int16) + parts(Y, np.int16)).astype(np.int16), parts(X, np.int16)), np.int16
    ),
    "__vimax3_s16x2_relu(x, y, x)": packed(
        np.maximum(np.maximum(parts(X, np.int16), parts(Y, np.int16)), 0), np.int16
    ),
    "min(x, y) + max((int)x, (int)y)": np.minimum(WIDE_X, WIDE_Y).astype(np.int64)
    + np.maximum(signed(X), signed(Y)),
    "(unsigned)(__brevll(((unsigned long long)y << 32) | x) >> 32)": [bit_reversed(x) for x in X.tolist()],
    "(unsigned)__umul64hi((unsigned long long)x << 32, y)": WIDE_X * WIDE_Y >> 32,
    "__fns(x, 0, 2) == 32u": np.zeros(X.size),
}


@pytest.mark.parametrize("expression", INTEGERS)
def test_integer_intrinsics(expression: str) -> None:
    expected = np.array(INTEGERS[expression]).astype(np.int64) & 0xFFFFFFFF
    assert (words()[list(INTEGERS).index(expression)] == expected).all()


EDGES = [
    0.0,
    -0.0,
    1.0,
    0.1,
    1e-45,
    65504.0,
    65519.9,
    65520.0,
    6e-8,
    3e-8,
    2.98e-8,
    1e-39,
    3.4e38,
    np.inf,
    -np.inf,
]
FLOATS = np.concatenate(
    [
        np.array(EDGES, np.float32),
        RNG.normal(0, 1, 100).astype(np.float32),
        (RNG.normal(0, 1, 100) * 2.0 ** RNG.integers(-30, 30, 100)).astype(np.float32),
    ]
)
OTHERS = RNG.permutation(FLOATS)


@cache
def program(body: str, head: str) -> Program:
    return Program(f"""{head}
    extern "C" __global__ void f(const float *a, const float *b, unsigned *out, int count, int which) {{
        int i = threadIdx.x;
        if (i >= count) return;
        float x = a[i], y = b[i];
        unsigned r;
        {{ {body} }}
        out[i] = r;
    }}""")


def floats(body: str, head: str = "", which: int = 0) -> np.ndarray:
    """`r` for every pair `x`, `y` of floats, as the bits that the body puts there."""
    results, count = np.zeros(FLOATS.size, np.uint32), np.int32(FLOATS.size)
    return program(body, head).run(FLOATS, OTHERS, results, count, np.int32(which), block=256)[2]


def toward(values: np.ndarray, exact: np.ndarray, mode: str) -> np.ndarray:
    """`values`, the nearest floats to `exact`, moved to the neighbour that `mode` asks for."""
    down = (values > exact) & ((mode == "rd") | ((mode == "rz") & (exact > 0)))
    up = (values < exact) & ((mode == "ru") | ((mode == "rz") & (exact < 0)))
    values = np.where(down, np.nextafter(values, np.float32(-np.inf)), values)
    return np.where(up, np.nextafter(values, np.float32(np.inf)), values).astype(np.float32)


MODES = ("rn", "rz", "rd", "ru")


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(("name", "operation"), [("__fmul", np.multiply), ("__fdiv", np.divide)])
def test_directed_rounding(name: str, operation: np.ufunc, mode: str) -> None:
    with np.errstate(all="ignore"):
        exact = operation(FLOATS.astype(np.float64), OTHERS.astype(np.float64))
        expected = toward(exact.astype(np.float32), exact, mode)
    lines = " ".join(f"if (which == {i}) r = __float_as_uint({name}_{m}(x, y));" for i, m in enumerate(MODES))
    got = floats(lines, "", MODES.index(mode)).view(np.float32)
    assert ((got == expected) | (np.isnan(got) & np.isnan(expected))).all()


def test_conversions_to_integers_saturate() -> None:
    got = floats("r = (unsigned)__float2int_rn(x) + (unsigned)__float2uint_rz(y) * 3u;")
    with np.errstate(all="ignore"):
        first = np.clip(np.rint(FLOATS.astype(np.float64)), -(2**31), 2**31 - 1).astype(np.int64)
        second = np.clip(np.trunc(OTHERS.astype(np.float64)), 0, 2**32 - 1).astype(np.int64)
    assert (got == (first + second * 3) % 2**32).all()


def test_functions_of_floats() -> None:
    body = """
    bool ok = __saturatef(x) == fminf(fmaxf(x, 0.0f), 1.0f) && (x != x || fabsf(rsqrtf(4.0f) - 0.5f) < 1e-6f);
    float s, c;
    sincosf(y, &s, &c);
    ok = ok && (isinf(y) || fabsf(s * s + c * c - 1.0f) < 1e-5f) && __fmaf_rn(2.0f, 3.0f, 4.0f) == 10.0f;
    ok = ok && max(x, y) >= min(x, y) && fabsf(powf(2.0f, 10.0f) - 1024.0f) < 1e-3f && __expf(0.0f) == 1.0f;
    ok = ok && __hiloint2double(__double2hiint(x), __double2loint(x)) == (double)x && exp10f(2.0f) > 99.99f;
    ok = ok && sqrt(4.0) == 2.0 && abs(-3) == 3 && abs(-2.5f) == 2.5f && floor(-0.5f) == -1.0f;
    r = ok;
    """
    assert floats(body).all()


HALVES = {
    "half": (np.float16, "#include <cuda_fp16.h>", "__float2half", "__half_as_ushort"),
    "__nv_bfloat16": (
        ml_dtypes.bfloat16,
        "#include <cuda_bf16.h>",
        "__float2bfloat16",
        "__bfloat16_as_ushort",
    ),
}


OPERATIONS = {
    "h": lambda h, _: h,
    "h + g": np.add,
    "h - g": np.subtract,
    "h * g": np.multiply,
    "h / g": np.divide,
    "hsqrt(__habs(h))": lambda h, _: np.sqrt(np.abs(h)),
    "__hmax(h, -g)": lambda h, g: np.maximum(h, -g),
}


@pytest.mark.parametrize("kind", HALVES)
def test_short_floats_round_once(kind: str) -> None:
    dtype, head, make, cast = HALVES[kind]
    with np.errstate(all="ignore"):
        h, g = FLOATS.astype(dtype), OTHERS.astype(dtype)
    lines = " ".join(f"if (which == {i}) r = {cast}({e});" for i, e in enumerate(OPERATIONS))
    for which, (expression, operation) in enumerate(OPERATIONS.items()):
        with np.errstate(all="ignore"):
            expected = operation(h.astype(np.float64), g.astype(np.float64)).astype(np.float64)
            expected = expected.astype(np.float32 if kind != "half" else dtype).astype(dtype)
        body = f"{kind} h = {make}(x), g = {make}(y); {lines}"
        got = floats(body, head, which).astype(np.uint16).view(dtype)
        assert ((got == expected) | (np.isnan(got) & np.isnan(expected))).all(), expression


def test_short_floats_compare_convert_and_pair_up() -> None:
    head = "#include <cuda_fp16.h>\n#include <cuda_bf16.h>"
    body = """
    half2 v = __floats2half2_rn(1.5f, -2.0f), w = __half2half2(__float2half(2.0f));
    half2 p = __hfma2(v, w, __float2half2_rn(0.5f));
    float2 q = __half22float2(p);
    bool ok = q.x == 3.5f && q.y == -3.5f && __low2float(v) == 1.5f && __hgt(v.x, v.y) && v.x > v.y;
    __nv_bfloat162 b = __floats2bfloat162_rn(1.0f, 3.0f);
    b = __hadd2(b, b);
    ok = ok && __bfloat162float(__high2bfloat16(b)) == 6.0f && (float)b.x == 2.0f && !__hisnan(b.x);
    half h = 3;
    h += __float2half(0.5f);
    int n = h;
    ok = ok && n == 3 && __half2int_rn(h) == 4 && (float)hexp(__float2half(0.0f)) == 1.0f;
    ok = ok && __half2float(__float2half_rz(2049.9f)) == 2048.0f &&
         __half2float(__float2half_ru(2049.0f)) == 2050.0f;
    ok = ok && __half2float(__ldg(&v).y) == -2.0f && __hbeq2(v, v) && __half2float(__hneg(h)) == -3.5f;
    r = ok;
    """
    assert floats(body, head).all()


CASTS = {
    "(int)x": np.int32, "int(x)": np.int32, "static_cast<int>(x)": np.int32, "of<int>(x)": np.int32,
    "(unsigned)x": np.uint32, "(uint32_t)x": np.uint32, "AS_INT(x)": np.int32, "(short)x": np.int16,
    "static_cast<unsigned char>(x)": np.uint8, "(long long)x": np.int64, "(unsigned long)x": np.uint64,
    "(size_t)x": np.uint64, "(int)(double)x": np.int32, "(int64_t)(x * 1.0)": np.int64,
}  # fmt: skip
REALS = np.array(
    [0, -0.9, 1.9, -7.5, 300, -70000, 3e9, -3e9, 5e9, 1e19, 2e19, -2e19, np.inf, -np.inf, np.nan], np.float32
)


@cache
def integers() -> np.ndarray:
    """The bits of every cast of `CASTS` for every number of `REALS`: (casts, numbers) uint64."""
    lines = "\n".join(
        f"        out[{i} * blockDim.x + threadIdx.x] = bits({c});" for i, c in enumerate(CASTS)
    )
    code = f"""#define AS_INT(v) ((int)(v))
    template <class T> __device__ T of(float x) {{ return (T)x; }}
    template <class T> __device__ unsigned long long bits(T x)
    {{
        unsigned long long word = 0;
        memcpy(&word, &x, sizeof x);
        return word;
    }}
    extern "C" __global__ void f(const float *a, unsigned long long *out)
    {{
        const float x = a[threadIdx.x];
{lines}
    }}"""
    return run(code, REALS, np.zeros((len(CASTS), REALS.size), np.uint64), block=REALS.size)[1]


@pytest.mark.parametrize("cast", CASTS)
def test_casts_of_numbers_to_integers_saturate(cast: str) -> None:
    kind = np.dtype(CASTS[cast])
    limits = np.iinfo(f"{kind.kind}{max(4, kind.itemsize)}")
    not_a_number = 1 << 63 if kind.itemsize == 8 else 0
    for value, bits in zip(REALS, integers()[list(CASTS).index(cast)], strict=True):
        nearest = not_a_number if np.isnan(value) else np.clip(float(value), limits.min, limits.max)
        whole = min(int(nearest), int(limits.max)) if value == value else not_a_number
        assert int(bits) == whole & ((1 << 8 * kind.itemsize) - 1)


HUGE, LARGEST = np.float32(2.0**126 * 1.5), np.float32(2.0**126)


@pytest.mark.parametrize(
    ("call", "x", "y", "expected"),
    [
        ("__fdividef(x, y)", 3e38, HUGE, 0.0),
        ("__fdividef(x, y)", -3e38, LARGEST, -3e38 / 2.0**126),
        ("__fdividef(x, y)", np.inf, HUGE, np.nan),
        ("__fdividef(x, y)", 3.0, np.inf, 0.0),
        ("ptx(x, y)", 3e38, HUGE, 0.0),
        ("__powf(x, y)", -2.0, 2.0, np.nan),
        ("__powf(x, y)", 0.0, 0.0, np.nan),
        ("__powf(x, y)", 3.0, 2.5, 3.0**2.5),
    ],
)
def test_fast_intrinsics_are_what_the_guide_defines(call: str, x: float, y: float, expected: float) -> None:
    code = f"""__device__ float ptx(float x, float y) {{
        float z; asm("div.approx.f32 %0, %1, %2;" : "=f"(z) : "f"(x), "f"(y)); return z; }}
    extern "C" __global__ void f(float *out, float x, float y) {{ out[0] = {call}; }}"""
    answer = run(code, np.ones(1, np.float32), np.float32(x), np.float32(y), grid=1, block=1)[0]
    np.testing.assert_allclose(answer, np.float32(expected), rtol=1e-6)


# Shifts, and what PTX makes of an amount of `BY` bits: of -7, 5 and 32 bits, 64-bit ones of 64.
SHIFTS = {
    "u << by": lambda by: 0xFFFFFFF9 << by if by < 32 else 0,
    "u >> by": lambda by: 0xFFFFFFF9 >> by if by < 32 else 0,
    "i >> by": lambda by: -7 >> min(by, 31),
    "i << by": lambda by: -7 << by if by < 32 else 0,
    "(u >> 28) << by": lambda by: 15 << by if by < 32 else 0,
    "w >> by": lambda by: -7 >> min(by, 63),
    "1ull << by": lambda by: 1 << by if by < 64 else 0,
    "short(i) >> by": lambda by: -7 >> min(by, 31),
    "ROTATED(u, by)": lambda by: (0xFFFFFFF9 << by | 0xFFFFFFF9 >> (32 - by)) if 0 <= by <= 32 else 0,
    "(i < by ? u >> by : 0)": lambda by: 0xFFFFFFF9 >> by if by < 32 else 0,
    "again(u, by)": lambda by: (0xFFFFFFF9 << by & 0xFFFFFFFF) >> 1 if by < 32 else 0,
    "of<(4 >> 1), 1 << 3>(by)": lambda by: 2 * by + 8,
    "bits.high << by": lambda by: 5 << by if by < 32 else 0,
}


@pytest.mark.parametrize("by", [0, 1, 31, 32, 33, 63, 64, 200])
def test_shifts_by_all_bits_or_more_clamp(by: int) -> None:
    lines = "\n".join(f"        out[{i}] = (unsigned long long)({shift});" for i, shift in enumerate(SHIFTS))
    code = f"""#define ROTATED(x, n) (n <= 32 ? (x) << (n) | (x) >> (32 - (n)) : 0u)
    template <class T> struct Boxed {{ T value; }};
    struct Bits {{ unsigned low : 4, high : 4; }};
    __device__ Boxed<Boxed<int>> nested(int by) {{ return Boxed<Boxed<int>>{{{{by}}}}; }}
    template <int A, int B> __device__ int of(int by) {{ return A * nested(by).value.value + B; }}
    __device__ unsigned again(unsigned x, int by) {{ x <<= by; x >>= by < 99 ? 1 : 2; return x; }}
    extern "C" __global__ void f(const long long *a, unsigned long long *out)
    {{
        const long long w = a[0];
        const int i = (int)w, by = (int)a[1];
        const unsigned u = i;
        const Bits bits = {{3, 5}};
{lines}
    }}"""
    out = run(code, np.array([-7, by], np.int64), np.zeros(len(SHIFTS), np.uint64))[1]
    for shift, bits in zip(SHIFTS, out, strict=True):
        wide = shift[0] in "w1"
        expected = SHIFTS[shift](by) & ((1 << (64 if wide else 32)) - 1)
        assert int(bits) & ((1 << (64 if wide else 32)) - 1) == expected, shift
