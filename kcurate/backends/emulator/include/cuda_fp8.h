// 8-bit floats e4m3 and e5m2, alone, in pairs and in fours. Source: CUDA Math API, "FP8 Intrinsics". Not covered: e8m0.
#pragma once

#include "cuda_bf16.h"
#include "cuda_fp16.h"
#include "kcurate/small_float.h"

enum __nv_saturation_t { __NV_NOSAT, __NV_SATFINITE };
enum __nv_fp8_interpretation_t { __NV_E4M3, __NV_E5M2 };
typedef unsigned char __nv_fp8_storage_t;
typedef unsigned short __nv_fp8x2_storage_t;
typedef unsigned int __nv_fp8x4_storage_t;

// Too large without saturation: NaN in e4m3, which has no infinity, else infinity. Halfway to the next number is
// 464 in e4m3, which rounds to 448, and 61440 in e5m2, which rounds up.
KCU_API __nv_fp8_storage_t __nv_cvt_float_to_fp8(float x, __nv_saturation_t saturation, __nv_fp8_interpretation_t kind)
{
    const unsigned sign = kcu_bits<unsigned>(x) >> 31 << 7;
    if (saturation == __NV_NOSAT && (kind == __NV_E4M3 ? fabsf(x) > 464.0f : fabsf(x) >= 61440.0f))
        return (__nv_fp8_storage_t)(sign | (kind == __NV_E4M3 ? 0x7F : 0x7C));
    return (__nv_fp8_storage_t)(kind == __NV_E4M3 ? kcu_small::encode_small<4, 3>(x)
                                                  : kcu_small::encode_small<5, 2>(x));
}
// First to float towards odd, so that the second rounding cannot go wrong.
KCU_API __nv_fp8_storage_t __nv_cvt_double_to_fp8(double x, __nv_saturation_t saturation, __nv_fp8_interpretation_t kind)
{
    const float cut = __double2float_rz(x);
    const bool exact = double(cut) == x || x != x;
    return __nv_cvt_float_to_fp8(exact ? cut : kcu_bits<float>(kcu_bits<unsigned>(cut) | 1), saturation, kind);
}
KCU_API __half_raw __nv_cvt_fp8_to_halfraw(__nv_fp8_storage_t x, __nv_fp8_interpretation_t kind)
{
    return __half(kind == __NV_E4M3 ? kcu_small::decode_small<4, 3>(x) : kcu_small::decode_small<5, 2>(x));
}
KCU_API __half2_raw __nv_cvt_fp8x2_to_halfraw2(__nv_fp8x2_storage_t x, __nv_fp8_interpretation_t kind)
{
    return __half2_raw{__nv_cvt_fp8_to_halfraw(x & 0xFF, kind).x, __nv_cvt_fp8_to_halfraw(x >> 8, kind).x};
}
#define KCU_TO_FP8(NAME, PAIR_NAME, RAW, PAIR, FULL)                                                         \
    KCU_API __nv_fp8_storage_t __nv_cvt_##NAME##_to_fp8(RAW x, __nv_saturation_t s, __nv_fp8_interpretation_t k) \
    {                                                                                                        \
        return __nv_cvt_float_to_fp8(float(FULL(x)), s, k);                                                  \
    }                                                                                                        \
    KCU_API __nv_fp8x2_storage_t __nv_cvt_##PAIR_NAME##_to_fp8x2(PAIR x, __nv_saturation_t s,                \
                                                                 __nv_fp8_interpretation_t k)                \
    {                                                                                                        \
        const unsigned low = __nv_cvt_##NAME##_to_fp8(RAW{x.x}, s, k);                                       \
        return (__nv_fp8x2_storage_t)(low | unsigned(__nv_cvt_##NAME##_to_fp8(RAW{x.y}, s, k)) << 8);        \
    }
KCU_TO_FP8(halfraw, halfraw2, __half_raw, __half2_raw, __half)
KCU_TO_FP8(bfloat16raw, bfloat16raw2, __nv_bfloat16_raw, __nv_bfloat162_raw, __nv_bfloat16)
#define KCU_PAIR_TO_FP8(T)                                                                                   \
    KCU_API __nv_fp8x2_storage_t __nv_cvt_##T##2_to_fp8x2(T##2 x, __nv_saturation_t s, __nv_fp8_interpretation_t k) \
    {                                                                                                        \
        const unsigned high = __nv_cvt_##T##_to_fp8(x.y, s, k);                                              \
        return (__nv_fp8x2_storage_t)(__nv_cvt_##T##_to_fp8(x.x, s, k) | high << 8);                         \
    }
KCU_PAIR_TO_FP8(float)
KCU_PAIR_TO_FP8(double)

#define KCU_FP8(NAME, KIND)                                                                                  \
    struct __attribute__((aligned(1))) __nv_fp8_##NAME {                                                     \
        __nv_fp8_storage_t __x;                                                                              \
        __nv_fp8_##NAME() = default;                                                                         \
        explicit __nv_fp8_##NAME(__half x) : __nv_fp8_##NAME(float(x)) {}                                    \
        explicit __nv_fp8_##NAME(__nv_bfloat16 x) : __nv_fp8_##NAME(float(x)) {}                             \
        explicit __nv_fp8_##NAME(float x) : __x(__nv_cvt_float_to_fp8(x, __NV_SATFINITE, KIND)) {}           \
        explicit __nv_fp8_##NAME(double x) : __x(__nv_cvt_double_to_fp8(x, __NV_SATFINITE, KIND)) {}         \
        explicit __nv_fp8_##NAME(short x) : __nv_fp8_##NAME(float(x)) {}                                     \
        explicit __nv_fp8_##NAME(unsigned short x) : __nv_fp8_##NAME(float(x)) {}                            \
        explicit __nv_fp8_##NAME(int x) : __nv_fp8_##NAME(double(x)) {}                                      \
        explicit __nv_fp8_##NAME(unsigned x) : __nv_fp8_##NAME(double(x)) {}                                 \
        explicit __nv_fp8_##NAME(long x) : __nv_fp8_##NAME(double(x)) {}                             \
        explicit __nv_fp8_##NAME(unsigned long x) : __nv_fp8_##NAME(double(x)) {}                   \
        explicit __nv_fp8_##NAME(long long x) : __nv_fp8_##NAME(double(x)) {}                        \
        explicit __nv_fp8_##NAME(unsigned long long x) : __nv_fp8_##NAME(double(x)) {}              \
        explicit operator __half() const { return __half(__nv_cvt_fp8_to_halfraw(__x, KIND)); }              \
        explicit operator float() const { return float(__half(*this)); }                                     \
        explicit operator __nv_bfloat16() const { return __nv_bfloat16(float(*this)); }                      \
        explicit operator double() const { return float(*this); }                                            \
        explicit operator short() const { return short(__half(*this)); }                                     \
        explicit operator unsigned short() const { return (unsigned short)(__half(*this)); }                 \
        explicit operator int() const { return __float2int_rz(float(*this)); }                               \
        explicit operator unsigned() const { return __float2uint_rz(float(*this)); }                         \
        explicit operator long long() const { return __float2ll_rz(float(*this)); }                          \
        explicit operator unsigned long long() const { return __float2ull_rz(float(*this)); }                \
        explicit operator long() const { return __float2ll_rz(float(*this)); }                               \
        explicit operator unsigned long() const { return __float2ull_rz(float(*this)); }                     \
        explicit operator bool() const { return (__x & 0x7F) != 0; }                                         \
    };                                                                                                       \
    struct __attribute__((aligned(2))) __nv_fp8x2_##NAME {                                                   \
        __nv_fp8x2_storage_t __x;                                                                            \
        __nv_fp8x2_##NAME() = default;                                                                       \
        explicit __nv_fp8x2_##NAME(__half2 x) : __x(__nv_cvt_halfraw2_to_fp8x2(x, __NV_SATFINITE, KIND)) {}  \
        explicit __nv_fp8x2_##NAME(__nv_bfloat162 x)                                                         \
            : __x(__nv_cvt_bfloat16raw2_to_fp8x2(x, __NV_SATFINITE, KIND)) {}                                \
        explicit __nv_fp8x2_##NAME(float2 x) : __x(__nv_cvt_float2_to_fp8x2(x, __NV_SATFINITE, KIND)) {}     \
        explicit __nv_fp8x2_##NAME(double2 x) : __x(__nv_cvt_double2_to_fp8x2(x, __NV_SATFINITE, KIND)) {}   \
        explicit operator __half2() const { return __half2(__nv_cvt_fp8x2_to_halfraw2(__x, KIND)); }         \
        explicit operator float2() const                                                                     \
        {                                                                                                    \
            const __half2 both(*this);                                                                       \
            return make_float2(float(both.x), float(both.y));                                                \
        }                                                                                                    \
    };                                                                                                       \
    struct __attribute__((aligned(4))) __nv_fp8x4_##NAME {                                                   \
        __nv_fp8x4_storage_t __x;                                                                            \
        __nv_fp8x4_##NAME() = default;                                                                       \
        template <class T> explicit __nv_fp8x4_##NAME(T low, T high)                                         \
            : __x(__nv_fp8x2_##NAME(low).__x | unsigned(__nv_fp8x2_##NAME(high).__x) << 16) {}               \
        explicit __nv_fp8x4_##NAME(float4 x)                                                                 \
            : __nv_fp8x4_##NAME(make_float2(x.x, x.y), make_float2(x.z, x.w)) {}                             \
        explicit __nv_fp8x4_##NAME(double4 x)                                                                \
            : __nv_fp8x4_##NAME(make_double2(x.x, x.y), make_double2(x.z, x.w)) {}                           \
        explicit operator float4() const                                                                     \
        {                                                                                                    \
            const __half2 low(__nv_cvt_fp8x2_to_halfraw2(__x & 0xFFFF, KIND));                               \
            const __half2 high(__nv_cvt_fp8x2_to_halfraw2(__x >> 16, KIND));                                 \
            return make_float4(float(low.x), float(low.y), float(high.x), float(high.y));                    \
        }                                                                                                    \
    };
KCU_FP8(e4m3, __NV_E4M3)
KCU_FP8(e5m2, __NV_E5M2)
