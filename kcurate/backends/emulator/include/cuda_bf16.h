// bfloat16 and its pair: the upper half of a float.
#pragma once

#include "kcurate/short_float.h"

// The nearest bfloat16 to a number, ties to even. A double is first rounded to float towards odd, so that the
// second rounding cannot go wrong.
KCU_API unsigned short kcu_encode_bfloat16(float x)
{
    const unsigned bits = kcu_bits<unsigned>(x);
    if (x != x) return 0x7FFF;
    return (unsigned short)((bits + 0x7FFF + (bits >> 16 & 1)) >> 16);
}
KCU_API unsigned short kcu_encode_bfloat16(double x)
{
    const float cut = __double2float_rz(x);
    if (double(cut) == x || x != x) return kcu_encode_bfloat16(cut);
    return kcu_encode_bfloat16(kcu_bits<float>(kcu_bits<unsigned>(cut) | 1));
}
KCU_API float kcu_decode_bfloat16(unsigned short bits) { return kcu_bits<float>(unsigned(bits) << 16); }

KCU_SHORT_FLOAT(__nv_bfloat16, __nv_bfloat162, __nv_bfloat16_raw, __nv_bfloat162_raw, kcu_encode_bfloat16, kcu_decode_bfloat16)
KCU_SHORT_EXTREMES(__nv_bfloat16, __nv_bfloat162)
KCU_SHORT_ARITHMETIC(__nv_bfloat16, __nv_bfloat162)
KCU_SHORT_CONVERSIONS(__nv_bfloat16, __nv_bfloat162, bfloat16, bfloat162)
KCU_API float2 __bfloat1622float2(__nv_bfloat162 a) { return __bfloat1622float2_impl(a); }

typedef __nv_bfloat16 nv_bfloat16;
typedef __nv_bfloat162 nv_bfloat162;
