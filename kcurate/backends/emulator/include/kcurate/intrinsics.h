// Intrinsics of one thread: casts of bits, integer and rounding arithmetic, cached loads.
// Source: CUDA Math API Reference Manual (integer, type casting, single and double precision intrinsics).
#pragma once

#include "maths.h"
#include "vectors.h"

KCU_API float __int_as_float(int x) { return kcu_bits<float>(x); }
KCU_API int __float_as_int(float x) { return kcu_bits<int>(x); }
KCU_API float __uint_as_float(unsigned x) { return kcu_bits<float>(x); }
KCU_API unsigned __float_as_uint(float x) { return kcu_bits<unsigned>(x); }
KCU_API double __longlong_as_double(long long x) { return kcu_bits<double>(x); }
KCU_API long long __double_as_longlong(double x) { return kcu_bits<long long>(x); }
KCU_API int __double2hiint(double x) { return int(kcu_bits<unsigned long long>(x) >> 32); }
KCU_API int __double2loint(double x) { return int(kcu_bits<unsigned long long>(x)); }
KCU_API double __hiloint2double(int hi, int lo)
{
    return kcu_bits<double>((unsigned long long)(unsigned)hi << 32 | (unsigned)lo);
}

KCU_API int __mul24(int a, int b) { return (int)((unsigned)((a << 8) >> 8) * (unsigned)((b << 8) >> 8)); }
KCU_API unsigned __umul24(unsigned a, unsigned b) { return (a & 0xFFFFFF) * (b & 0xFFFFFF); }
KCU_API int __mulhi(int a, int b) { return int((long long)a * b >> 32); }
KCU_API unsigned __umulhi(unsigned a, unsigned b) { return unsigned((unsigned long long)a * b >> 32); }
KCU_API long long __mul64hi(long long a, long long b) { return (long long)((__int128)a * b >> 64); }
KCU_API unsigned long long __umul64hi(unsigned long long a, unsigned long long b)
{
    return (unsigned long long)((unsigned __int128)a * b >> 64);
}
KCU_API unsigned __sad(int a, int b, unsigned c)
{
    return c + unsigned(a > b ? (long long)a - b : (long long)b - a);
}
KCU_API unsigned __usad(unsigned a, unsigned b, unsigned c) { return c + (a > b ? a - b : b - a); }
KCU_API int __hadd(int a, int b) { return int(((long long)a + b) >> 1); }
KCU_API int __rhadd(int a, int b) { return int(((long long)a + b + 1) >> 1); }
KCU_API unsigned __uhadd(unsigned a, unsigned b) { return unsigned(((unsigned long long)a + b) >> 1); }

KCU_API int __popc(unsigned x) { return __builtin_popcount(x); }
KCU_API int __popcll(unsigned long long x) { return __builtin_popcountll(x); }
KCU_API int __clz(int x) { return x ? __builtin_clz(unsigned(x)) : 32; }
KCU_API int __clzll(long long x) { return x ? __builtin_clzll((unsigned long long)x) : 64; }
KCU_API int __ffs(int x) { return __builtin_ffs(x); }
KCU_API int __ffsll(long long x) { return __builtin_ffsll(x); }
KCU_API unsigned __brev(unsigned x)
{
    x = (x >> 1 & 0x55555555u) | (x & 0x55555555u) << 1;
    x = (x >> 2 & 0x33333333u) | (x & 0x33333333u) << 2;
    x = (x >> 4 & 0x0F0F0F0Fu) | (x & 0x0F0F0F0Fu) << 4;
    return __builtin_bswap32(x);
}
KCU_API unsigned long long __brevll(unsigned long long x)
{
    return (unsigned long long)__brev(unsigned(x)) << 32 | __brev(unsigned(x >> 32));
}
// The n-th set bit from `base` on, upwards for n > 0; ~0 when there is none.
KCU_API unsigned __fns(unsigned mask, unsigned base, int n)
{
    if (n == 0) return mask >> base & 1 ? base : ~0u;
    for (int i = int(base), step = n > 0 ? 1 : -1; i >= 0 && i < 32; i += step)
        if ((mask >> i & 1) && (n -= step) == 0) return unsigned(i);
    return ~0u;
}
// prmt.b32 (PTX ISA): a selector of 8 or more spreads its byte's sign.
KCU_API unsigned kcu_selected_bytes(unsigned x, unsigned y, unsigned selector)
{
    const unsigned long long bytes = (unsigned long long)y << 32 | x;
    unsigned result = 0;
    for (int i = 0; i < 4; i++) {
        const unsigned pick = selector >> 4 * i & 15;
        unsigned byte = unsigned(bytes >> 8 * (pick & 7)) & 0xFF;
        if (pick & 8) byte = byte & 0x80 ? 0xFF : 0;
        result |= byte << 8 * i;
    }
    return result;
}
// Three bits of each selector count (CUDA Math API).
KCU_API unsigned __byte_perm(unsigned x, unsigned y, unsigned selector)
{
    return kcu_selected_bytes(x, y, selector & 0x7777);
}
KCU_API unsigned __funnelshift_l(unsigned lo, unsigned hi, unsigned n)
{
    return unsigned((((unsigned long long)hi << 32 | lo) << (n & 31)) >> 32);
}
KCU_API unsigned __funnelshift_r(unsigned lo, unsigned hi, unsigned n)
{
    return unsigned(((unsigned long long)hi << 32 | lo) >> (n & 31));
}
KCU_API unsigned __funnelshift_lc(unsigned lo, unsigned hi, unsigned n)
{
    return n >= 32 ? lo : __funnelshift_l(lo, hi, n);
}
KCU_API unsigned __funnelshift_rc(unsigned lo, unsigned hi, unsigned n)
{
    return n >= 32 ? hi : __funnelshift_r(lo, hi, n);
}
template <class A, class B, class C> KCU_API C kcu_dot(A a, B b, C c, int count, int bits, int from)
{
    for (int i = 0; i < count; i++) {
        const int low = 32 - bits;
        auto x = A(a << (low - bits * i)) >> low;
        auto y = B(b << (24 - 8 * (i + from))) >> 24;
        c += C(x) * C(y);
    }
    return c;
}
KCU_API int __dp4a(int a, int b, int c) { return kcu_dot(a, b, c, 4, 8, 0); }
KCU_API unsigned __dp4a(unsigned a, unsigned b, unsigned c) { return kcu_dot(a, b, c, 4, 8, 0); }
KCU_API int __dp2a_lo(int a, int b, int c) { return kcu_dot(a, b, c, 2, 16, 0); }
KCU_API int __dp2a_hi(int a, int b, int c) { return kcu_dot(a, b, c, 2, 16, 2); }
KCU_API unsigned __dp2a_lo(unsigned a, unsigned b, unsigned c) { return kcu_dot(a, b, c, 2, 16, 0); }
KCU_API unsigned __dp2a_hi(unsigned a, unsigned b, unsigned c) { return kcu_dot(a, b, c, 2, 16, 2); }
#define KCU_DOT(name, A, B, C) \
    KCU_API C name(A a, B b, C c) { return name(__builtin_bit_cast(C, a), __builtin_bit_cast(C, b), c); }
KCU_DOT(__dp4a, char4, char4, int)
KCU_DOT(__dp4a, uchar4, uchar4, unsigned)
KCU_DOT(__dp2a_lo, short2, char4, int)
KCU_DOT(__dp2a_lo, ushort2, uchar4, unsigned)
KCU_DOT(__dp2a_hi, short2, char4, int)
KCU_DOT(__dp2a_hi, ushort2, uchar4, unsigned)
#undef KCU_DOT

KCU_API float __saturatef(float x) { return x > 0.0f ? (x < 1.0f ? x : 1.0f) : 0.0f; }
// Programming Guide, "Intrinsic Functions": 0 for divisors from 2^126 to 2^128, whatever is divided but infinities.
KCU_API float __fdividef(float x, float y)
{
    const bool large = fabsf(y) > 0x1p126f && fabsf(y) < __builtin_inff();
    return large ? x * 0.0f : x / y;
}
KCU_API float __expf(float x) { return expf(x); }
KCU_API float __exp10f(float x) { return exp10f(x); }
KCU_API float __logf(float x) { return logf(x); }
KCU_API float __log2f(float x) { return log2f(x); }
KCU_API float __log10f(float x) { return log10f(x); }
KCU_API float __powf(float x, float y) { return float(exp2(y * log2(double(x)))); } // NaN where x < 0
KCU_API float __sinf(float x) { return sinf(x); }
KCU_API float __cosf(float x) { return cosf(x); }
KCU_API float __tanf(float x) { return tanf(x); }
KCU_API float __tanhf(float x) { return tanhf(x); }
KCU_API void __sincosf(float x, float *s, float *c) { sincosf(x, s, c); }

// A number whose rounding is fixed: the compiler contracts it into nothing.
template <class T> KCU_API T kcu_rounded(T x)
{
#ifdef __aarch64__
    __asm__("" : "+w"(x));
#else
    __asm__("" : "+x"(x));
#endif
    return x;
}

// Results as exact as `double` can make them, then rounded to nearest, down, up or towards zero.
KCU_API float kcu_down(float r, double exact)
{
    return double(r) > exact ? nextafterf(r, -__builtin_inff()) : r;
}
KCU_API float kcu_up(float r, double exact)
{
    return double(r) < exact ? nextafterf(r, __builtin_inff()) : r;
}
KCU_API float kcu_zero(float r, double exact) { return exact > 0 ? kcu_down(r, exact) : kcu_up(r, exact); }
#define KCU_ROUNDED(NAME, ARGS, EXPRESSION)                                                                  \
    KCU_API float NAME##_rn ARGS { return kcu_rounded(float(EXPRESSION)); }                                  \
    KCU_API float NAME##_rd ARGS { return kcu_down(float(EXPRESSION), EXPRESSION); }                         \
    KCU_API float NAME##_ru ARGS { return kcu_up(float(EXPRESSION), EXPRESSION); }                           \
    KCU_API float NAME##_rz ARGS { return kcu_zero(float(EXPRESSION), EXPRESSION); }
KCU_ROUNDED(__fadd, (float x, float y), (double(x) + double(y)))
KCU_ROUNDED(__fsub, (float x, float y), (double(x) - double(y)))
KCU_ROUNDED(__fmul, (float x, float y), (double(x) * double(y)))
KCU_ROUNDED(__fdiv, (float x, float y), (double(x) / double(y)))
KCU_ROUNDED(__frcp, (float x), (1.0 / double(x)))
KCU_ROUNDED(__fsqrt, (float x), (sqrt(double(x))))
KCU_ROUNDED(__double2float, (double x), (x))
KCU_ROUNDED(__int2float, (int x), (double(x)))
KCU_ROUNDED(__uint2float, (unsigned x), (double(x)))
KCU_API float __fmaf_rn(float x, float y, float z) { return fmaf(x, y, z); }
KCU_API float __fmaf_rz(float x, float y, float z)
{
    return kcu_zero(fmaf(x, y, z), double(x) * double(y) + double(z));
}
KCU_API float __frsqrt_rn(float x) { return float(1.0 / sqrt(double(x))); }
KCU_API double __dadd_rn(double x, double y) { return kcu_rounded(x + y); }
KCU_API double __dsub_rn(double x, double y) { return kcu_rounded(x - y); }
KCU_API double __dmul_rn(double x, double y) { return kcu_rounded(x * y); }
KCU_API double __ddiv_rn(double x, double y) { return x / y; }
KCU_API double __drcp_rn(double x) { return 1.0 / x; }
KCU_API double __dsqrt_rn(double x) { return sqrt(x); }
KCU_API double __fma_rn(double x, double y, double z) { return fma(x, y, z); }
KCU_API double __int2double_rn(int x) { return x; }
KCU_API double __uint2double_rn(unsigned x) { return x; }
// Integers of 64 bits, which a double does not hold: compared as integers of 128.
#define KCU_ROUNDED_LL(FROM, I, TO, NEXT)                                                                    \
    KCU_API TO __##FROM##2##TO##_rn(I x) { return TO(x); }                                                   \
    KCU_API TO __##FROM##2##TO##_rd(I x)                                                                     \
    {                                                                                                        \
        return (__int128)TO(x) > (__int128)x ? NEXT(TO(x), TO(-__builtin_inf())) : TO(x);                    \
    }                                                                                                        \
    KCU_API TO __##FROM##2##TO##_ru(I x)                                                                     \
    {                                                                                                        \
        return (__int128)TO(x) < (__int128)x ? NEXT(TO(x), TO(__builtin_inf())) : TO(x);                     \
    }                                                                                                        \
    KCU_API TO __##FROM##2##TO##_rz(I x)                                                                     \
    {                                                                                                        \
        return x > 0 ? __##FROM##2##TO##_rd(x) : __##FROM##2##TO##_ru(x);                                    \
    }
KCU_ROUNDED_LL(ll, long long, float, nextafterf)
KCU_ROUNDED_LL(ll, long long, double, nextafter)
KCU_ROUNDED_LL(ull, unsigned long long, float, nextafterf)
KCU_ROUNDED_LL(ull, unsigned long long, double, nextafter)

// Conversions to integers saturate, and NaN becomes 0 (64-bit: the lowest value).
template <class I, class F> KCU_API I kcu_to_integer(F x, I lowest, I highest)
{
    if (x != x) return 0;
    if (double(x) <= double(lowest)) return lowest;
    if (double(x) >= double(highest)) return highest;
    return I(x);
}
#define KCU_INT_LIMITS -2147483647 - 1, 2147483647
#define KCU_UINT_LIMITS 0u, 4294967295u
#define KCU_LL_LIMITS (-9223372036854775807LL - 1), 9223372036854775807LL
#define KCU_ULL_LIMITS 0ull, 18446744073709551615ull
#define KCU_CONVERT(FROM, F, TO, I, LIMITS)                                                                  \
    KCU_API I __##FROM##2##TO##_rn(F x) { return kcu_to_integer<I>(rint(x), LIMITS); }                       \
    KCU_API I __##FROM##2##TO##_rz(F x) { return kcu_to_integer<I>(trunc(x), LIMITS); }                      \
    KCU_API I __##FROM##2##TO##_rd(F x) { return kcu_to_integer<I>(floor(x), LIMITS); }                      \
    KCU_API I __##FROM##2##TO##_ru(F x) { return kcu_to_integer<I>(ceil(x), LIMITS); }
KCU_CONVERT(float, float, int, int, KCU_INT_LIMITS)
KCU_CONVERT(float, float, uint, unsigned, KCU_UINT_LIMITS)
KCU_CONVERT(float, float, ll, long long, KCU_LL_LIMITS)
KCU_CONVERT(float, float, ull, unsigned long long, KCU_ULL_LIMITS)
KCU_CONVERT(double, double, int, int, KCU_INT_LIMITS)
KCU_CONVERT(double, double, uint, unsigned, KCU_UINT_LIMITS)
KCU_CONVERT(double, double, ll, long long, KCU_LL_LIMITS)
KCU_CONVERT(double, double, ull, unsigned long long, KCU_ULL_LIMITS)

// The types that cached loads and stores have overloads for; of classes, those that say so.
template <class T, class = void> struct kcu_cached {};
template <class T> struct kcu_cached<T, typename kcu_enable<sizeof(typename T::kcu_loaded) != 0>::type> {
    typedef T type;
};
#define KCU_CACHED(T)                                                                                        \
    template <> struct kcu_cached<T> {                                                                       \
        typedef T type;                                                                                      \
    };
#define KCU_CACHED_INTEGER(T, NAME) KCU_CACHED(T) KCU_CACHED(NAME##2) KCU_CACHED(NAME##4)
KCU_CACHED(char)
KCU_CACHED_INTEGER(signed char, char)
KCU_CACHED_INTEGER(unsigned char, uchar)
KCU_CACHED_INTEGER(short, short)
KCU_CACHED_INTEGER(unsigned short, ushort)
KCU_CACHED_INTEGER(int, int)
KCU_CACHED_INTEGER(unsigned, uint)
KCU_CACHED_INTEGER(float, float)
KCU_CACHED(long)
KCU_CACHED(unsigned long)
KCU_CACHED(long long)
KCU_CACHED(unsigned long long)
KCU_CACHED(longlong2)
KCU_CACHED(ulonglong2)
KCU_CACHED(double)
KCU_CACHED(double2)
template <class T> KCU_API typename kcu_cached<T>::type __ldg(const T *p)
{
    KCU_IN_TURNS(kcu_read_only(p, sizeof(T)));
    return *p;
}
#define KCU_LOAD(NAME)                                                                                       \
    template <class T> KCU_API typename kcu_cached<T>::type NAME(const T *p) { return *p; }
KCU_LOAD(__ldca)
KCU_LOAD(__ldcg)
KCU_LOAD(__ldcs)
KCU_LOAD(__ldcv)
KCU_LOAD(__ldlu)
#define KCU_STORE(NAME)                                                                                      \
    template <class T> KCU_API void NAME(T *p, typename kcu_cached<T>::type value) { *p = value; }
KCU_STORE(__stwb)
KCU_STORE(__stcg)
KCU_STORE(__stcs)
KCU_STORE(__stwt)
KCU_API size_t __cvta_generic_to_shared(const void *p) { return kcu_to_shared(p); }
KCU_API void *__cvta_shared_to_generic(size_t address) { return kcu_from_shared(address); }
KCU_API unsigned __isShared(const void *p) { return kcu_to_shared(p) != ~0ull; }
KCU_API size_t __cvta_generic_to_global(const void *p) { return size_t(p); }
KCU_API unsigned __isGlobal(const void *p) { return !__isShared(p); }
