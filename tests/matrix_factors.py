"""Random matrices of every type that tensor cores multiply: raw elements, and their values."""

from __future__ import annotations

import math

import numpy as np
from emulation import Array


def decode_fp8(byte: int, exponent_bits: int) -> float:
    """An 8-bit float by its definition (OCP 8-bit floating point, revision 1.0)."""
    fraction_bits = 7 - exponent_bits
    sign = -1.0 if byte & 0x80 else 1.0
    exponent, fraction = (byte & 0x7F) >> fraction_bits, byte & ((1 << fraction_bits) - 1)
    bias = 2 ** (exponent_bits - 1) - 1
    if exponent_bits == 4 and byte & 0x7F == 0x7F:
        return math.nan
    if exponent_bits == 5 and exponent == 31:
        return math.nan if fraction else sign * math.inf
    if exponent == 0:
        return sign * fraction * 2.0 ** (1 - bias - fraction_bits)
    return sign * (1 + fraction / 2**fraction_bits) * 2.0 ** (exponent - bias)


FP8 = {
    "e4m3": np.array([decode_fp8(byte, 4) for byte in range(256)]),
    "e5m2": np.array([decode_fp8(byte, 5) for byte in range(256)]),
}


def factor(kind: str, shape: tuple[int, int], random: np.random.Generator) -> tuple[Array, Array]:
    """(raw elements, their values as float64) of a random matrix."""
    if kind in FP8:
        finite = np.flatnonzero(np.isfinite(FP8[kind]) & (np.abs(FP8[kind]) < 100))
        raw = random.choice(finite, shape).astype(np.uint8)
        return raw, FP8[kind][raw]
    if kind in ("s8", "u8"):
        raw = random.integers(*((-128, 128) if kind == "s8" else (0, 256)), shape).astype(
            np.int8 if kind == "s8" else np.uint8
        )
        return raw, raw.astype(np.float64)
    values = random.standard_normal(shape).astype(np.float32)
    if kind == "f16":
        return values.astype(np.float16), values.astype(np.float16).astype(np.float64)
    whole = values.view(np.uint32)
    if kind == "bf16":
        raw = (whole >> 16).astype(np.uint16)
        return raw, (raw.astype(np.uint32) << 16).view(np.float32).astype(np.float64)
    # tf32: the hardware reads the upper 19 bits and ignores the rest
    return whole, (whole & 0xFFFFE000).view(np.float32).astype(np.float64)
