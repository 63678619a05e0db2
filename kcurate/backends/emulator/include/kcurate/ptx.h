// Inline PTX: registers, arithmetic and conversions. `kcurate/ptx/rows.py` says which instruction calls what.
//
// A register holds bits: `as` reads them as a type, `put` writes them. Source: PTX ISA, "Instruction Set".
#pragma once

#include "../cuda_bf16.h"
#include "../cuda_fp16.h"
#include "small_float.h"
#include "warp.h"

namespace kcu_ptx
{

typedef bool pred;
typedef unsigned char u8, b8;
typedef unsigned short u16, b16;
typedef unsigned u32, b32;
typedef unsigned long long u64, b64;
typedef signed char s8;
typedef short s16;
typedef int s32;
typedef long long s64;
typedef float f32;
typedef double f64;
typedef __half f16;
typedef __nv_bfloat16 bf16;
typedef __half2 f16x2;
typedef __nv_bfloat162 bf16x2;

template <int Size> struct bits_of;
template <> struct bits_of<1> { typedef unsigned char type; };
template <> struct bits_of<2> { typedef unsigned short type; };
template <> struct bits_of<4> { typedef unsigned type; };
template <> struct bits_of<8> { typedef unsigned long long type; };
template <class T> using bits = typename bits_of<sizeof(T)>::type;

template <class T> constexpr bool is_whole = T(3) / T(2) == T(1);
template <> inline constexpr bool is_whole<__half> = false;
template <> inline constexpr bool is_whole<__half2> = false;
template <> inline constexpr bool is_whole<__nv_bfloat16> = false;
template <> inline constexpr bool is_whole<__nv_bfloat162> = false;

[[noreturn]] KCU_API void unsupported(const char *what) { kcu_fault(KCU_UNSUPPORTED, what); }

template <class To, class From> KCU_API To as(From value)
{
    if constexpr (is_whole<To>)
        return To(value);
    else
        return kcu_bits<To>(bits<To>(value));
}
template <class R, class T> KCU_API void put(R &to, T value)
{
    if constexpr (is_whole<T>)
        to = R(value);
    else
        to = R(kcu_bits<bits<T>>(value));
}
template <class T> KCU_API bits<T> raw(T value) { return kcu_bits<bits<T>>(value); }
// An operand of an asm statement: its bits in a register, and back.
template <class R, class T> KCU_API R in(T value)
{
    if constexpr (sizeof(R) == sizeof(T))
        return kcu_bits<R>(value);
    else
        return R(value);
}
KCU_API unsigned in_float(float value) { return kcu_bits<unsigned>(value); }
KCU_API unsigned long long in_double(double value) { return kcu_bits<unsigned long long>(value); }
template <class T, class R> KCU_API void out(T &to, R value)
{
    if constexpr (sizeof(R) == sizeof(T))
        __builtin_memcpy((void *)&to, &value, sizeof to);
    else
        to = T(value);
}

template <class T> KCU_API T flush(T x) { return x; }
KCU_API float flush(float x) { return x > -1.17549435e-38f && x < 1.17549435e-38f ? copysignf(0.0f, x) : x; }
KCU_API __half flush(__half x) { return x.bits & 0x7C00 ? x : kcu_make(x, x.bits & 0x8000); }
KCU_API __half2 flush(__half2 x) { return __half2(flush(x.x), flush(x.y)); }
template <class T> KCU_API T saturate(T x) { return x > T(0.0f) ? (x < T(1.0f) ? x : T(1.0f)) : T(0.0f); }
KCU_API __half2 saturate(__half2 x) { return __half2(saturate(x.x), saturate(x.y)); }
KCU_API __nv_bfloat162 saturate(__nv_bfloat162 x) { return __nv_bfloat162(saturate(x.x), saturate(x.y)); }

template <class To, class R, int N> KCU_API To pack(const R (&parts)[N])
{
    static_assert(sizeof(To) == sizeof(R) * N, "the parts fill the register");
    To whole = 0;
    for (int i = N - 1; i >= 0; i--) whole = To(whole << (8 * sizeof(R) % (8 * sizeof(To)))) | parts[i];
    return whole;
}
template <class R, int N, class T> KCU_API void unpack(R *const (&parts)[N], T whole)
{
    for (int i = 0; i < N; i++) *parts[i] = R(whole >> 8 * sizeof(R) * i);
}

// Conversions.
template <class T> KCU_API double round_rni(T x) { return rint(double(x)); }
template <class T> KCU_API double round_rzi(T x) { return trunc(double(x)); }
template <class T> KCU_API double round_rmi(T x) { return floor(double(x)); }
template <class T> KCU_API double round_rpi(T x) { return ceil(double(x)); }
template <class I> KCU_API I to_integer(double x)
{
    const bool wide = sizeof(I) == 8, minus = I(-1) < I(0);
    const I highest = minus ? I(~(1ull << (8 * sizeof(I) - 1))) : I(~0ull), lowest = minus ? I(~highest) : I(0);
    if (x != x) return wide ? I(1ull << 63) : I(0);
    if (x <= double(lowest)) return lowest;
    return x >= double(highest) ? highest : I(x);
}
template <class F, class I> KCU_API F from_integer_rn(I x) { return F(x); }
KCU_API float next(float x, bool up) { return nextafterf(x, up ? __builtin_inff() : -__builtin_inff()); }
KCU_API double next(double x, bool up) { return nextafter(x, up ? __builtin_inf() : -__builtin_inf()); }
template <class F, class I> KCU_API F from_integer_rm(I x)
{
    return (__int128)F(x) > (__int128)x ? next(F(x), false) : F(x);
}
template <class F, class I> KCU_API F from_integer_rp(I x)
{
    return (__int128)F(x) < (__int128)x ? next(F(x), true) : F(x);
}
template <class F, class I> KCU_API F from_integer_rz(I x)
{
    return x > I(0) ? from_integer_rm<F>(x) : from_integer_rp<F>(x);
}
KCU_API float narrow_rn(double x) { return float(x); }
KCU_API float narrow_rz(double x) { return __double2float_rz(x); }
KCU_API float narrow_rm(double x) { return __double2float_rd(x); }
KCU_API float narrow_rp(double x) { return __double2float_ru(x); }
template <class H> KCU_API H shorten_rn(float x) { return H(x); }
template <class H> KCU_API H shorten_rz(float x)
{
    return kcu_make(H(), kcu_directed(H(x).bits, kcu_value(H(x)), x, KCU_ZERO));
}
template <class H> KCU_API H positive(H x) { return kcu_value(x) > 0 || __hisnan(x) ? x : H(0.0f); }
template <class H2> KCU_API H2 shorten_two_rn(float high, float low)
{
    typedef decltype(H2::x) H;
    return H2(H(low), H(high));
}
template <class H2> KCU_API H2 shorten_two_rz(float high, float low)
{
    typedef decltype(H2::x) H;
    return H2(shorten_rz<H>(low), shorten_rz<H>(high));
}
template <class H2> KCU_API H2 shorten_two_rnrelu(float high, float low)
{
    const H2 two = shorten_two_rn<H2>(high, low);
    return H2(positive(two.x), positive(two.y));
}
template <class H2> KCU_API H2 shorten_two_rzrelu(float high, float low)
{
    const H2 two = shorten_two_rz<H2>(high, low);
    return H2(positive(two.x), positive(two.y));
}
KCU_API unsigned to_tf32(float x)
{
    const unsigned all = kcu_bits<unsigned>(x);
    return x != x || isinf(x) ? all : (all + 0x1000u) & 0xFFFFE000u;
}

using kcu_small::decode_small;
using kcu_small::encode_small;
KCU_API unsigned short to_fp8_e4m3x2(float high, float low)
{
    return (unsigned short)(encode_small<4, 3>(high) << 8 | encode_small<4, 3>(low));
}
KCU_API unsigned short to_fp8_e5m2x2(float high, float low)
{
    return (unsigned short)(encode_small<5, 2>(high) << 8 | encode_small<5, 2>(low));
}
KCU_API float not_negative(float x) { return x < 0 ? 0.0f : x; }
KCU_API unsigned short to_fp8_e4m3x2relu(float a, float b)
{
    return to_fp8_e4m3x2(not_negative(a), not_negative(b));
}
KCU_API unsigned short to_fp8_e5m2x2relu(float a, float b)
{
    return to_fp8_e5m2x2(not_negative(a), not_negative(b));
}
KCU_API __half2 from_fp8_e4m3x2(unsigned short two)
{
    return __half2(__half(decode_small<4, 3>(two & 0xFF)), __half(decode_small<4, 3>(two >> 8)));
}
KCU_API __half2 from_fp8_e5m2x2(unsigned short two)
{
    return __half2(__half(decode_small<5, 2>(two & 0xFF)), __half(decode_small<5, 2>(two >> 8)));
}
KCU_API __half2 from_fp8_e4m3x2relu(unsigned short two)
{
    const __half2 both = from_fp8_e4m3x2(two);
    return __half2(positive(both.x), positive(both.y));
}
KCU_API __half2 from_fp8_e5m2x2relu(unsigned short two)
{
    const __half2 both = from_fp8_e5m2x2(two);
    return __half2(positive(both.x), positive(both.y));
}

// Integers.
template <class T> KCU_API T add_carry(bool &carry, T a, T b, bool in)
{
    typedef unsigned __int128 Wide;
    const Wide sum = Wide(bits<T>(a)) + bits<T>(b) + in;
    carry = sum >> 8 * sizeof(T) & 1;
    return T(sum);
}
template <class T> KCU_API T sub_borrow(bool &borrow, T a, T b, bool in)
{
    typedef unsigned __int128 Wide;
    const Wide rest = Wide(bits<T>(a)) - bits<T>(b) - in;
    borrow = rest >> 8 * sizeof(T) & 1;
    return T(rest);
}
template <class T> KCU_API T low_product(T a, T b)
{
    return T((unsigned long long)bits<T>(a) * (unsigned long long)bits<T>(b));
}
template <class T> KCU_API T high_product(T a, T b) { return T((__int128)a * (__int128)b >> 8 * sizeof(T)); }
KCU_API unsigned long long high_product(unsigned long long a, unsigned long long b)
{
    return __umul64hi(a, b);
}
KCU_API unsigned wide_product(unsigned short a, unsigned short b) { return unsigned(a) * b; }
KCU_API int wide_product(short a, short b) { return int(a) * b; }
KCU_API unsigned long long wide_product(unsigned a, unsigned b) { return (unsigned long long)a * b; }
KCU_API long long wide_product(int a, int b) { return (long long)a * b; }
KCU_API unsigned logic_of_three(unsigned a, unsigned b, unsigned c, unsigned table)
{
    unsigned result = 0;
    for (int i = 0; i < 8; i++)
        if (table >> i & 1) result |= (i & 4 ? a : ~a) & (i & 2 ? b : ~b) & (i & 1 ? c : ~c);
    return result;
}
KCU_API unsigned permuted_bytes(unsigned a, unsigned b, unsigned c) { return kcu_selected_bytes(a, b, c); }
KCU_API unsigned funnel_l_wrap(unsigned a, unsigned b, unsigned n) { return __funnelshift_l(a, b, n); }
KCU_API unsigned funnel_r_wrap(unsigned a, unsigned b, unsigned n) { return __funnelshift_r(a, b, n); }
KCU_API unsigned funnel_l_clamp(unsigned a, unsigned b, unsigned n) { return __funnelshift_lc(a, b, n); }
KCU_API unsigned funnel_r_clamp(unsigned a, unsigned b, unsigned n) { return __funnelshift_rc(a, b, n); }
template <class T> KCU_API T shifted_left(T a, unsigned n) { return n < 8 * sizeof(T) ? T(a << n) : T(0); }
template <class T> KCU_API T shifted_right(T a, unsigned n)
{
    return n < 8 * sizeof(T) ? T(a >> n) : a < T(0) ? T(-1) : T(0);
}
template <class T> KCU_API T bit_field(T a, unsigned from, unsigned length)
{
    const unsigned width = 8 * sizeof(T);
    from &= 255, length &= 255;
    T result = 0;
    const unsigned last = from + length - 1 < width - 1 ? from + length - 1 : width - 1;
    const bool sign = T(-1) < T(0) && length && (bits<T>(a) >> last & 1);
    for (unsigned i = 0; i < width; i++)
        if (i < length && from + i < width ? bits<T>(a) >> (from + i) & 1 : sign) result |= T(bits<T>(1) << i);
    return result;
}
template <class T> KCU_API T with_bit_field(T a, T b, unsigned from, unsigned length)
{
    from &= 255, length &= 255;
    for (unsigned i = 0; i < length && from + i < 8 * sizeof(T); i++)
        b = (b & ~(T(1) << (from + i))) | (a >> i & 1) << (from + i);
    return b;
}
KCU_API unsigned ones(unsigned a) { return unsigned(__popc(a)); }
KCU_API unsigned ones(unsigned long long a) { return unsigned(__popcll(a)); }
KCU_API unsigned leading_zeros(unsigned a) { return unsigned(__clz(int(a))); }
KCU_API unsigned leading_zeros(unsigned long long a) { return unsigned(__clzll((long long)a)); }
KCU_API unsigned reversed(unsigned a) { return __brev(a); }
KCU_API unsigned long long reversed(unsigned long long a) { return __brevll(a); }
// vabsdiff4 (PTX ISA, video instructions): four bytes' absolute differences, or with `.add` their sum and c's.
KCU_API unsigned differences_of_4u(unsigned a, unsigned b, unsigned) { return __vabsdiffu4(a, b); }
KCU_API unsigned differences_of_4uadd(unsigned a, unsigned b, unsigned c) { return c + __vsadu4(a, b); }
KCU_API unsigned differences_of_4s(unsigned a, unsigned b, unsigned) { return __vabsdiffs4(a, b); }
KCU_API unsigned differences_of_4sadd(unsigned a, unsigned b, unsigned c) { return c + __vsads4(a, b); }
template <class A, class B> KCU_API int dot_of_4(A a, B b, int c) { return kcu_dot(a, b, c, 4, 8, 0); }

// Floats.
KCU_API float fused(float a, float b, float c) { return fmaf(a, b, c); }
KCU_API double fused(double a, double b, double c) { return fma(a, b, c); }
KCU_API float root(float a) { return sqrtf(a); }
KCU_API double root(double a) { return sqrt(a); }
KCU_API float sine(float a) { return sinf(a); }
KCU_API float cosine(float a) { return cosf(a); }
KCU_API float log_2(float a) { return log2f(a); }
KCU_API float power_of_2(float a) { return exp2f(a); }
KCU_API float tanh_of(float a) { return tanhf(a); }
KCU_API float magnitude(float a) { return fabsf(a); }
KCU_API double magnitude(double a) { return fabs(a); }
KCU_API float negated(float a) { return -a; }
KCU_API double negated(double a) { return -a; }
KCU_API float with_sign(float a, float sign) { return copysignf(a, sign); }
KCU_API double with_sign(double a, double sign) { return copysign(a, sign); }
template <class T> KCU_API T lesser(T a, T b) { return a != a ? b : b != b || a < b ? a : b; }
template <class T> KCU_API T greater(T a, T b) { return a != a ? b : b != b || a > b ? a : b; }
template <class T> KCU_API T lesserNaN(T a, T b) { return a != a ? a : b != b ? b : lesser(a, b); }
template <class T> KCU_API T greaterNaN(T a, T b) { return a != a ? a : b != b ? b : greater(a, b); }
#define KCU_PTX_SHORT(H, H2)                                                                                 \
    KCU_API H fused(H a, H b, H c) { return __hfma(a, b, c); }                                               \
    KCU_API H2 fused(H2 a, H2 b, H2 c) { return __hfma2(a, b, c); }                                          \
    KCU_API H fusedrelu(H a, H b, H c) { return __hfma_relu(a, b, c); }                                      \
    KCU_API H2 fusedrelu(H2 a, H2 b, H2 c) { return __hfma2_relu(a, b, c); }                                 \
    KCU_API H power_of_2(H a) { return hexp2(a); }                                                           \
    KCU_API H2 power_of_2(H2 a) { return h2exp2(a); }                                                        \
    KCU_API H tanh_of(H a) { return htanh(a); }                                                              \
    KCU_API H2 tanh_of(H2 a) { return h2tanh(a); }                                                           \
    KCU_API H magnitude(H a) { return __habs(a); }                                                           \
    KCU_API H2 magnitude(H2 a) { return __habs2(a); }                                                        \
    KCU_API H negated(H a) { return __hneg(a); }                                                             \
    KCU_API H2 negated(H2 a) { return __hneg2(a); }                                                          \
    KCU_API H2 lesser(H2 a, H2 b) { return __hmin2(a, b); }                                                  \
    KCU_API H2 greater(H2 a, H2 b) { return __hmax2(a, b); }                                                 \
    KCU_API H2 lesserNaN(H2 a, H2 b) { return __hmin2_nan(a, b); }                                           \
    KCU_API H2 greaterNaN(H2 a, H2 b) { return __hmax2_nan(a, b); }
KCU_PTX_SHORT(__half, __half2)
KCU_PTX_SHORT(__nv_bfloat16, __nv_bfloat162)

// Comparisons: false for NaN, but for the ones whose name ends in u.
#define KCU_PTX_COMPARE(NAME, SIGN)                                                                          \
    template <class T> KCU_API bool is_##NAME(T a, T b) { return a == a && b == b && a SIGN b; }             \
    template <class T> KCU_API bool is_##NAME##u(T a, T b) { return a != a || b != b || a SIGN b; }
KCU_PTX_COMPARE(eq, ==)
KCU_PTX_COMPARE(ne, !=)
KCU_PTX_COMPARE(lt, <)
KCU_PTX_COMPARE(le, <=)
KCU_PTX_COMPARE(gt, >)
KCU_PTX_COMPARE(ge, >=)
template <class T> KCU_API bool is_lo(T a, T b) { return bits<T>(a) < bits<T>(b); }
template <class T> KCU_API bool is_ls(T a, T b) { return bits<T>(a) <= bits<T>(b); }
template <class T> KCU_API bool is_hi(T a, T b) { return bits<T>(a) > bits<T>(b); }
template <class T> KCU_API bool is_hs(T a, T b) { return bits<T>(a) >= bits<T>(b); }
template <class T> KCU_API bool is_num(T a, T b) { return a == a && b == b; }
template <class T> KCU_API bool is_nan(T a, T b) { return a != a || b != b; }
KCU_API bool both_and(bool a, bool b) { return a && b; }
KCU_API bool both_or(bool a, bool b) { return a || b; }
KCU_API bool both_xor(bool a, bool b) { return a != b; }

} // namespace kcu_ptx
