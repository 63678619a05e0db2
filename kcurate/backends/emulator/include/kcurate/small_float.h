// Floats of 8 bits, for inline PTX and for cuda_fp8.h.
#pragma once

#include "maths.h"

namespace kcu_small
{

// 8-bit floats: a sign, `E` bits of exponent, `M` of fraction. e4m3 has no infinity.
template <int E, int M> KCU_API float decode_small(unsigned byte)
{
    const int bias = (1 << (E - 1)) - 1, exponent = int(byte >> M & ((1 << E) - 1));
    const unsigned fraction = byte & ((1u << M) - 1);
    float size = exponent ? ldexpf(float((1u << M) + fraction), exponent - bias - M)
                          : ldexpf(float(fraction), 1 - bias - M);
    if (E == 4 ? (byte & 0x7F) == 0x7F : exponent == 31)
        size = E == 4 || fraction ? __builtin_nanf("") : __builtin_inff();
    return byte & 0x80 ? -size : size;
}
// The nearest, ties to even; beyond the largest number, that one.
template <int E, int M> KCU_API unsigned encode_small(float x)
{
    const int bias = (1 << (E - 1)) - 1;
    const unsigned sign = kcu_bits<unsigned>(x) >> 31 << 7, largest = E == 4 ? 0x7E : 0x7B;
    if (x != x) return 0x7F;
    const float size = fabsf(x);
    int exponent = 0;
    frexpf(size, &exponent);
    if (size == 0 || exponent < 2 - bias) exponent = 2 - bias; // subnormal
    const float scaled = rintf(ldexpf(size, M + 1 - exponent));
    const float most = decode_small<E, M>(largest);
    if (!(ldexpf(scaled, exponent - M - 1) < most)) return sign | largest;
    return sign | (unsigned(exponent - 2 + bias) << M) + unsigned(scaled);
}

} // namespace kcu_small
