// What half and bfloat16 have in common: a class each, its pair, arithmetic rounded once, comparisons,
// functions, packing. cuda_fp16.h and cuda_bf16.h make the two out of it.
//
// float has more than twice their digits and two to spare, so rounding a float's sum, product, quotient or
// root to them is the same as rounding once. Source: CUDA Math API Reference Manual, half and bfloat16
// precision.
#pragma once

#include "warp.h"

// Code includes this inside a namespace, where the functions below would hide those of these names.
using ::__hadd;
using ::__shfl_down_sync;
using ::__shfl_sync;
using ::__shfl_up_sync;
using ::__shfl_xor_sync;
using ::atomicAdd;
using ::kcu_touch;

enum KcuRounding { KCU_NEAREST, KCU_ZERO, KCU_DOWN, KCU_UP };

// One step in the order of the numbers, on the bits of a 16-bit float.
KCU_API unsigned short kcu_step16(unsigned short bits, bool up)
{
    if (!(bits & 0x7FFF)) return up ? 1 : 0x8001;
    return (unsigned short)((bits >> 15 != 0) != up ? bits + 1 : bits - 1);
}
KCU_API unsigned short kcu_directed(unsigned short nearest, double rounded, double exact, int rounding)
{
    if (rounding == KCU_NEAREST || rounded == exact || exact != exact) return nearest;
    const bool up = rounding == KCU_UP || (rounding == KCU_ZERO && exact < 0);
    if (up ? rounded > exact : rounded < exact) return nearest;
    return kcu_step16(nearest, up);
}

#define KCU_SHORT_FLOAT(H, H2, RAW, RAW2, ENCODE, DECODE)                                                    \
    struct RAW {                                                                                             \
        unsigned short x;                                                                                    \
    };                                                                                                       \
    struct __attribute__((aligned(4))) RAW2 {                                                                \
        unsigned short x, y;                                                                                 \
    };                                                                                                       \
    struct __attribute__((aligned(2))) H {                                                                   \
        typedef H kcu_loaded;                                                                                \
        unsigned short bits;                                                                                 \
        H() = default;                                                                                       \
        constexpr H(const RAW &raw) : bits(raw.x) {}                                                         \
        H(float x) : bits(ENCODE(x)) {}                                                                      \
        H(double x) : bits(ENCODE(x)) {}                                                                     \
        H(short x) : bits(ENCODE(double(x))) {}                                                              \
        H(unsigned short x) : bits(ENCODE(double(x))) {}                                                     \
        H(int x) : bits(ENCODE(double(x))) {}                                                                \
        H(unsigned x) : bits(ENCODE(double(x))) {}                                                           \
        H(long x) : bits(ENCODE(double(x))) {}                                                               \
        H(unsigned long x) : bits(ENCODE(double(x))) {}                                                      \
        H(long long x) : bits(ENCODE(double(x))) {}                                                          \
        H(unsigned long long x) : bits(ENCODE(double(x))) {}                                                 \
        operator float() const { return DECODE(bits); }                                                      \
        operator RAW() const { return RAW{bits}; }                                                           \
        explicit operator double() const { return DECODE(bits); }                                            \
        operator short() const { return short(DECODE(bits)); }                                               \
        operator unsigned short() const { return (unsigned short)DECODE(bits); }                             \
        operator int() const { return __float2int_rz(DECODE(bits)); }                                        \
        operator unsigned() const { return __float2uint_rz(DECODE(bits)); }                                  \
        operator long long() const { return __float2ll_rz(DECODE(bits)); }                                   \
        operator bool() const { return (bits & 0x7FFF) != 0; }                                               \
    };                                                                                                       \
    struct __attribute__((aligned(4))) H2 {                                                                  \
        typedef H2 kcu_loaded;                                                                               \
        H x, y;                                                                                              \
        H2() = default;                                                                                      \
        H2(const H &a, const H &b) : x(a), y(b) {}                                                           \
        H2(const RAW2 &raw) : x(RAW{raw.x}), y(RAW{raw.y}) {}                                                \
        operator RAW2() const { return RAW2{x.bits, y.bits}; }                                               \
    };                                                                                                       \
    KCU_SHUFFLES(H)                                                                                          \
    KCU_SHUFFLES(H2)                                                                                         \
    KCU_API H kcu_make(H, unsigned short bits) { return H(RAW{bits}); }                                      \
    KCU_API float kcu_value(H a) { return DECODE(a.bits); }

// Arithmetic of one number and of pairs; `_rn` variants are the same and only forbid fusing.
#define KCU_SHORT_OPERATOR(H, H2, NAME, SIGN)                                                                \
    KCU_API H __h##NAME(H a, H b) { return H(kcu_value(a) SIGN kcu_value(b)); }                              \
    KCU_API H __h##NAME##_rn(H a, H b) { return __h##NAME(a, b); }                                           \
    KCU_API H __h##NAME##_sat(H a, H b) { return H(__saturatef(kcu_value(__h##NAME(a, b)))); }               \
    KCU_API H2 __h##NAME##2(H2 a, H2 b) { return H2(__h##NAME(a.x, b.x), __h##NAME(a.y, b.y)); }             \
    KCU_API H2 __h##NAME##2_rn(H2 a, H2 b) { return __h##NAME##2(a, b); }                                    \
    KCU_API H2 __h##NAME##2_sat(H2 a, H2 b)                                                                  \
    {                                                                                                        \
        return H2(__h##NAME##_sat(a.x, b.x), __h##NAME##_sat(a.y, b.y));                                     \
    }                                                                                                        \
    KCU_API H operator SIGN(const H &a, const H &b) { return __h##NAME(a, b); }                              \
    KCU_API H2 operator SIGN(const H2 &a, const H2 &b) { return __h##NAME##2(a, b); }                        \
    KCU_API H &operator SIGN## = (H & a, const H &b) { return a = a SIGN b; }                                \
    KCU_API H2 &operator SIGN## = (H2 & a, const H2 &b) { return a = a SIGN b; }

#define KCU_SHORT_COMPARE(H, H2, NAME, SIGN)                                                                 \
    KCU_API bool __h##NAME(H a, H b) { return kcu_value(a) SIGN kcu_value(b); }                              \
    KCU_API bool __h##NAME##u(H a, H b) { return __hisnan(a) || __hisnan(b) || __h##NAME(a, b); }            \
    KCU_API H2 __h##NAME##2(H2 a, H2 b)                                                                      \
    {                                                                                                        \
        return H2(H(float(__h##NAME(a.x, b.x))), H(float(__h##NAME(a.y, b.y))));                             \
    }                                                                                                        \
    KCU_API bool __hb##NAME##2(H2 a, H2 b) { return __h##NAME(a.x, b.x) && __h##NAME(a.y, b.y); }            \
    KCU_API unsigned __h##NAME##2_mask(H2 a, H2 b)                                                           \
    {                                                                                                        \
        return (__h##NAME(a.x, b.x) ? 0xFFFFu : 0) | (__h##NAME(a.y, b.y) ? 0xFFFF0000u : 0);                \
    }                                                                                                        \
    KCU_API bool operator SIGN(const H &a, const H &b) { return __h##NAME(a, b); }                           \
    KCU_API bool operator SIGN(const H2 &a, const H2 &b) { return __hb##NAME##2(a, b); }

#define KCU_SHORT_FUNCTION(H, H2, NAME, EXPRESSION)                                                          \
    KCU_API H h##NAME(H a)                                                                                   \
    {                                                                                                        \
        const float x = kcu_value(a);                                                                        \
        return H(EXPRESSION);                                                                                \
    }                                                                                                        \
    KCU_API H2 h2##NAME(H2 a) { return H2(h##NAME(a.x), h##NAME(a.y)); }

// One function of two numbers, and the same of two pairs.
#define KCU_SHORT_BINARY(H, H2, NAME, PAIR, EXPRESSION)                                                      \
    KCU_API H NAME(H a, H b)                                                                                 \
    {                                                                                                        \
        const float x = kcu_value(a), y = kcu_value(b);                                                      \
        (void)x, (void)y;                                                                                    \
        return EXPRESSION;                                                                                   \
    }                                                                                                        \
    KCU_API H2 PAIR(H2 a, H2 b) { return H2(NAME(a.x, b.x), NAME(a.y, b.y)); }

#define KCU_SHORT_ARITHMETIC(H, H2)                                                                          \
    KCU_API bool __hisnan(H a) { return isnan(kcu_value(a)); }                                               \
    KCU_API int __hisinf(H a) { return isinf(kcu_value(a)) ? (kcu_value(a) > 0 ? 1 : -1) : 0; }              \
    KCU_SHORT_OPERATOR(H, H2, add, +)                                                                        \
    KCU_SHORT_OPERATOR(H, H2, sub, -)                                                                        \
    KCU_SHORT_OPERATOR(H, H2, mul, *)                                                                        \
    KCU_SHORT_OPERATOR(H, H2, div, /)                                                                        \
    KCU_API H2 __h2div(H2 a, H2 b) { return __hdiv2(a, b); }                                                 \
    KCU_SHORT_COMPARE(H, H2, eq, ==)                                                                         \
    KCU_SHORT_COMPARE(H, H2, ne, !=)                                                                         \
    KCU_SHORT_COMPARE(H, H2, lt, <)                                                                          \
    KCU_SHORT_COMPARE(H, H2, le, <=)                                                                         \
    KCU_SHORT_COMPARE(H, H2, gt, >)                                                                          \
    KCU_SHORT_COMPARE(H, H2, ge, >=)                                                                         \
    KCU_API H __hneg(H a) { return kcu_make(a, a.bits ^ 0x8000); }                                           \
    KCU_API H __habs(H a) { return kcu_make(a, a.bits & 0x7FFF); }                                           \
    KCU_API H2 __hneg2(H2 a) { return H2(__hneg(a.x), __hneg(a.y)); }                                        \
    KCU_API H2 __habs2(H2 a) { return H2(__habs(a.x), __habs(a.y)); }                                        \
    KCU_API H operator-(const H &a) { return __hneg(a); }                                                    \
    KCU_API H operator+(const H &a) { return a; }                                                            \
    KCU_API H2 operator-(const H2 &a) { return __hneg2(a); }                                                 \
    KCU_API H &operator++(H &a) { return a = a + H(1.0f); }                                                  \
    KCU_API H &operator--(H &a) { return a = a - H(1.0f); }                                                  \
    KCU_API H __hfma(H a, H b, H c)                                                                          \
    {                                                                                                        \
        return H(double(kcu_value(a)) * double(kcu_value(b)) + double(kcu_value(c)));                        \
    }                                                                                                        \
    KCU_API H __hfma_relu(H a, H b, H c) { return __hmax(__hfma(a, b, c), H(0.0f)); }                        \
    KCU_API H __hfma_sat(H a, H b, H c) { return H(__saturatef(kcu_value(__hfma(a, b, c)))); }               \
    KCU_API H2 __hfma2(H2 a, H2 b, H2 c) { return H2(__hfma(a.x, b.x, c.x), __hfma(a.y, b.y, c.y)); }        \
    KCU_API H2 __hfma2_relu(H2 a, H2 b, H2 c)                                                                \
    {                                                                                                        \
        return H2(__hfma_relu(a.x, b.x, c.x), __hfma_relu(a.y, b.y, c.y));                                   \
    }                                                                                                        \
    KCU_API H2 __hfma2_sat(H2 a, H2 b, H2 c)                                                                 \
    {                                                                                                        \
        return H2(__hfma_sat(a.x, b.x, c.x), __hfma_sat(a.y, b.y, c.y));                                     \
    }                                                                                                        \
    KCU_API H2 __hisnan2(H2 a) { return H2(H(float(__hisnan(a.x))), H(float(__hisnan(a.y)))); }              \
    KCU_SHORT_FUNCTION(H, H2, sqrt, sqrtf(x))                                                                \
    KCU_SHORT_FUNCTION(H, H2, rsqrt, 1.0 / sqrt(double(x)))                                                  \
    KCU_SHORT_FUNCTION(H, H2, rcp, 1.0f / x)                                                                 \
    KCU_SHORT_FUNCTION(H, H2, exp, expf(x))                                                                  \
    KCU_SHORT_FUNCTION(H, H2, exp2, exp2f(x))                                                                \
    KCU_SHORT_FUNCTION(H, H2, exp10, exp10f(x))                                                              \
    KCU_SHORT_FUNCTION(H, H2, log, logf(x))                                                                  \
    KCU_SHORT_FUNCTION(H, H2, log2, log2f(x))                                                                \
    KCU_SHORT_FUNCTION(H, H2, log10, log10f(x))                                                              \
    KCU_SHORT_FUNCTION(H, H2, sin, sinf(x))                                                                  \
    KCU_SHORT_FUNCTION(H, H2, cos, cosf(x))                                                                  \
    KCU_SHORT_FUNCTION(H, H2, tanh, tanhf(x))                                                                \
    KCU_SHORT_FUNCTION(H, H2, tanh_approx, tanhf(x))                                                         \
    KCU_SHORT_FUNCTION(H, H2, floor, floorf(x))                                                              \
    KCU_SHORT_FUNCTION(H, H2, ceil, ceilf(x))                                                                \
    KCU_SHORT_FUNCTION(H, H2, trunc, truncf(x))                                                              \
    KCU_SHORT_FUNCTION(H, H2, rint, rintf(x))                                                                \
    KCU_API H2 __lowhigh2highlow(H2 a) { return H2(a.y, a.x); }                                              \
    KCU_API float __low2float(H2 a) { return kcu_value(a.x); }                                               \
    KCU_API float __high2float(H2 a) { return kcu_value(a.y); }                                              \
    KCU_API H atomicAdd(H *address, H value)                                                                 \
    {                                                                                                        \
        kcu_spin_at(address);                                                                                \
        kcu_touch(address, sizeof(H));                                                                       \
        const H old = *address;                                                                              \
        *address = old + value;                                                                              \
        return old;                                                                                          \
    }                                                                                                        \
    KCU_API H2 atomicAdd(H2 *address, H2 value)                                                              \
    {                                                                                                        \
        return H2(atomicAdd(&address->x, value.x), atomicAdd(&address->y, value.y));                         \
    }
// Before KCU_SHORT_ARITHMETIC, which uses them. NaN loses against a number, but for the `_nan` variants.
#define KCU_SHORT_EXTREMES(H, H2)                                                                            \
    KCU_SHORT_BINARY(H, H2, __hmax, __hmax2, x > y || y != y ? a : b)                                        \
    KCU_SHORT_BINARY(H, H2, __hmin, __hmin2, x < y || y != y ? a : b)                                        \
    KCU_SHORT_BINARY(H, H2, __hmax_nan, __hmax2_nan, x > y || x != x ? a : b)                                \
    KCU_SHORT_BINARY(H, H2, __hmin_nan, __hmin2_nan, x < y || x != x ? a : b)

// Names that carry the type's own: NAME is half or bfloat16, P the pair's.
#define KCU_SHORT_CONVERSIONS(H, H2, NAME, P)                                                                \
    KCU_API float __##NAME##2float(H a) { return kcu_value(a); }                                             \
    KCU_API H __float2##NAME(float x) { return H(x); }                                                       \
    KCU_API H __double2##NAME(double x) { return H(x); }                                                     \
    KCU_API H __float2##NAME##_rn(float x) { return H(x); }                                                  \
    KCU_API H __float2##NAME##_rz(float x)                                                                   \
    {                                                                                                        \
        return kcu_make(H(), kcu_directed(H(x).bits, kcu_value(H(x)), x, KCU_ZERO));                         \
    }                                                                                                        \
    KCU_API H __float2##NAME##_rd(float x)                                                                   \
    {                                                                                                        \
        return kcu_make(H(), kcu_directed(H(x).bits, kcu_value(H(x)), x, KCU_DOWN));                         \
    }                                                                                                        \
    KCU_API H __float2##NAME##_ru(float x)                                                                   \
    {                                                                                                        \
        return kcu_make(H(), kcu_directed(H(x).bits, kcu_value(H(x)), x, KCU_UP));                           \
    }                                                                                                        \
    KCU_API H2 __float2##P##_rn(float x) { return H2(H(x), H(x)); }                                          \
    KCU_API H2 __floats2##P##_rn(float x, float y) { return H2(H(x), H(y)); }                                \
    KCU_API H2 __float22##P##_rn(float2 v) { return H2(H(v.x), H(v.y)); }                                    \
    KCU_API float2 __##P##2float2_impl(H2 a) { return make_float2(kcu_value(a.x), kcu_value(a.y)); }         \
    KCU_API H2 __##NAME##2##P(H a) { return H2(a, a); }                                                      \
    KCU_API H2 __halves2##P(H a, H b) { return H2(a, b); }                                                   \
    KCU_API H __low2##NAME(H2 a) { return a.x; }                                                             \
    KCU_API H __high2##NAME(H2 a) { return a.y; }                                                            \
    KCU_API H2 __low2##P(H2 a) { return H2(a.x, a.x); }                                                      \
    KCU_API H2 __high2##P(H2 a) { return H2(a.y, a.y); }                                                     \
    KCU_API H2 __lows2##P(H2 a, H2 b) { return H2(a.x, b.x); }                                               \
    KCU_API H2 __highs2##P(H2 a, H2 b) { return H2(a.y, b.y); }                                              \
    KCU_API H2 make_##P(H a, H b) { return H2(a, b); }                                                       \
    KCU_API short __##NAME##_as_short(H a) { return short(a.bits); }                                         \
    KCU_API unsigned short __##NAME##_as_ushort(H a) { return a.bits; }                                      \
    KCU_API H __short_as_##NAME(short x) { return kcu_make(H(), (unsigned short)x); }                        \
    KCU_API H __ushort_as_##NAME(unsigned short x) { return kcu_make(H(), x); }                              \
    KCU_API H __int2##NAME##_rn(int x) { return H(x); }                                                      \
    KCU_API H __uint2##NAME##_rn(unsigned x) { return H(x); }                                                \
    KCU_API H __short2##NAME##_rn(short x) { return H(x); }                                                  \
    KCU_API H __ushort2##NAME##_rn(unsigned short x) { return H(x); }                                        \
    KCU_API H __ll2##NAME##_rn(long long x) { return H(x); }                                                 \
    KCU_API int __##NAME##2int_rn(H a) { return __float2int_rn(kcu_value(a)); }                              \
    KCU_API int __##NAME##2int_rz(H a) { return __float2int_rz(kcu_value(a)); }                              \
    KCU_API int __##NAME##2int_rd(H a) { return __float2int_rd(kcu_value(a)); }                              \
    KCU_API int __##NAME##2int_ru(H a) { return __float2int_ru(kcu_value(a)); }                              \
    KCU_API unsigned __##NAME##2uint_rn(H a) { return __float2uint_rn(kcu_value(a)); }                       \
    KCU_API unsigned __##NAME##2uint_rz(H a) { return __float2uint_rz(kcu_value(a)); }
