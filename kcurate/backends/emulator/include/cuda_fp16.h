// half and half2: IEEE 754 binary16.
#pragma once

#include "kcurate/short_float.h"

// The nearest half to a number, ties to even.
KCU_API unsigned short kcu_encode_half(double x)
{
    const unsigned long long wide = kcu_bits<unsigned long long>(x);
    const unsigned sign = unsigned(wide >> 48) & 0x8000;
    const int exponent = int(wide >> 52 & 0x7FF) - 1023;
    const unsigned long long digits = (wide & 0xFFFFFFFFFFFFFull) | 1ull << 52;
    if (exponent == 1024) return (unsigned short)(wide << 12 ? 0x7FFF : sign | 0x7C00);
    if (exponent < -26) return (unsigned short)sign;
    // Drop all but eleven digits, more where the result is subnormal.
    const int drop = exponent >= -14 ? 42 : 42 + (-14 - exponent);
    unsigned long long kept = digits >> drop;
    const unsigned long long rest = digits & ((1ull << drop) - 1), half = 1ull << (drop - 1);
    if (rest > half || (rest == half && (kept & 1))) kept++;
    const unsigned long long scaled =
        exponent >= -14 ? ((unsigned long long)(exponent + 14) << 10) + kept : kept;
    return (unsigned short)(sign | (scaled >= 0x7C00 ? 0x7C00 : unsigned(scaled)));
}
KCU_API float kcu_decode_half(unsigned short bits)
{
    const unsigned sign = unsigned(bits & 0x8000) << 16, exponent = bits >> 10 & 31, digits = bits & 0x3FF;
    if (exponent == 31) return kcu_bits<float>(sign | 0x7F800000u | digits << 13);
    if (exponent) return kcu_bits<float>(sign | (exponent + 112) << 23 | digits << 13);
    const float small = float(digits) * 5.9604644775390625e-8f; // 2^-24
    return sign ? -small : small;
}

KCU_SHORT_FLOAT(__half, __half2, __half_raw, __half2_raw, kcu_encode_half, kcu_decode_half)
KCU_SHORT_EXTREMES(__half, __half2)
KCU_SHORT_ARITHMETIC(__half, __half2)
KCU_SHORT_CONVERSIONS(__half, __half2, half, half2)
KCU_API float2 __half22float2(__half2 a) { return __half22float2_impl(a); }

typedef __half half;
typedef __half2 half2;
typedef __half __nv_half;
typedef __half2 __nv_half2;
typedef __half nv_half;
typedef __half2 nv_half2;
