// The small part of the C++ library that device code uses: type traits, limits, pairs, arrays.
#pragma once

#include "intrinsics.h"

namespace kcu_std
{

template <class T, T V> struct integral_constant {
    static constexpr T value = V;
    typedef T value_type;
    constexpr operator T() const { return V; }
};
typedef integral_constant<bool, true> true_type;
typedef integral_constant<bool, false> false_type;
template <bool B> using bool_constant = integral_constant<bool, B>;

template <class A, class B> struct is_same : false_type {};
template <class A> struct is_same<A, A> : true_type {};
template <class A, class B> constexpr bool is_same_v = is_same<A, B>::value;
template <bool B, class T = void> struct enable_if {};
template <class T> struct enable_if<true, T> {
    typedef T type;
};
template <bool B, class T = void> using enable_if_t = typename enable_if<B, T>::type;
template <bool B, class T, class F> struct conditional {
    typedef T type;
};
template <class T, class F> struct conditional<false, T, F> {
    typedef F type;
};
template <bool B, class T, class F> using conditional_t = typename conditional<B, T, F>::type;

template <class T> struct remove_const {
    typedef T type;
};
template <class T> struct remove_const<const T> {
    typedef T type;
};
template <class T> struct remove_cv : remove_const<T> {};
template <class T> struct remove_cv<volatile T> : remove_const<T> {};
template <class T> struct remove_cv<const volatile T> : remove_const<T> {};
template <class T> struct remove_reference {
    typedef T type;
};
template <class T> struct remove_reference<T &> {
    typedef T type;
};
template <class T> struct remove_reference<T &&> {
    typedef T type;
};
template <class T> struct remove_pointer {
    typedef T type;
};
template <class T> struct remove_pointer<T *> {
    typedef T type;
};
template <class T> struct make_unsigned {
    typedef T type;
};
template <class T> struct make_signed {
    typedef T type;
};
#define KCU_SIGNS(T, SIGNED, UNSIGNED)                                                                       \
    template <> struct make_unsigned<T> {                                                                    \
        typedef UNSIGNED type;                                                                               \
    };                                                                                                       \
    template <> struct make_signed<T> {                                                                      \
        typedef SIGNED type;                                                                                 \
    };
#define KCU_BOTH_SIGNS(T)                                                                                    \
    KCU_SIGNS(T, signed T, unsigned T)                                                                       \
    KCU_SIGNS(unsigned T, signed T, unsigned T)
KCU_BOTH_SIGNS(char)
KCU_SIGNS(signed char, signed char, unsigned char)
KCU_BOTH_SIGNS(short)
KCU_BOTH_SIGNS(int)
KCU_BOTH_SIGNS(long)
KCU_BOTH_SIGNS(long long)
template <class T> using make_unsigned_t = typename make_unsigned<T>::type;
template <class T> using make_signed_t = typename make_signed<T>::type;
template <class T> using remove_const_t = typename remove_const<T>::type;
template <class T> using remove_cv_t = typename remove_cv<T>::type;
template <class T> using remove_reference_t = typename remove_reference<T>::type;
template <class T> using remove_pointer_t = typename remove_pointer<T>::type;
template <class T> using decay_t = remove_cv_t<remove_reference_t<T>>;

template <class T> struct is_pointer : false_type {};
template <class T> struct is_pointer<T *> : true_type {};
template <class T> struct kcu_integral : false_type {};
template <class T> struct kcu_floating : false_type {};
#define KCU_INTEGRAL(T)                                                                                      \
    template <> struct kcu_integral<T> : true_type {};
KCU_INTEGRAL(bool)
KCU_INTEGRAL(char)
KCU_INTEGRAL(signed char)
KCU_INTEGRAL(unsigned char)
KCU_INTEGRAL(short)
KCU_INTEGRAL(unsigned short)
KCU_INTEGRAL(int)
KCU_INTEGRAL(unsigned)
KCU_INTEGRAL(long)
KCU_INTEGRAL(unsigned long)
KCU_INTEGRAL(long long)
KCU_INTEGRAL(unsigned long long)
#undef KCU_INTEGRAL
template <> struct kcu_floating<float> : true_type {};
template <> struct kcu_floating<double> : true_type {};
template <class T> struct is_integral : kcu_integral<remove_cv_t<T>> {};
template <class T> struct is_floating_point : kcu_floating<remove_cv_t<T>> {};
template <class T> struct is_arithmetic
    : bool_constant<is_integral<T>::value || is_floating_point<T>::value> {};
template <class T> struct is_signed : bool_constant<is_arithmetic<T>::value && (T(-1) < T(0))> {};
template <class T> struct is_unsigned : bool_constant<is_integral<T>::value && !(T(-1) < T(0))> {};
template <class T> constexpr bool is_integral_v = is_integral<T>::value;
template <class T> constexpr bool is_floating_point_v = is_floating_point<T>::value;
template <class T> constexpr bool is_signed_v = is_signed<T>::value;
template <class T> constexpr bool is_unsigned_v = is_unsigned<T>::value;
template <class T> constexpr bool is_pointer_v = is_pointer<T>::value;

template <class T> struct numeric_limits;
#define KCU_LIMITS(T, LOWEST, HIGHEST)                                                                       \
    template <> struct numeric_limits<T> {                                                                   \
        static constexpr bool is_specialized = true, is_integer = true, is_signed = (T) - 1 < (T)0;          \
        static constexpr T min() { return LOWEST; }                                                          \
        static constexpr T lowest() { return LOWEST; }                                                       \
        static constexpr T max() { return HIGHEST; }                                                         \
    };
KCU_LIMITS(char, -128, 127)
KCU_LIMITS(signed char, -128, 127)
KCU_LIMITS(unsigned char, 0, 255)
KCU_LIMITS(short, -32768, 32767)
KCU_LIMITS(unsigned short, 0, 65535)
KCU_LIMITS(int, -2147483647 - 1, 2147483647)
KCU_LIMITS(unsigned, 0, 4294967295u)
KCU_LIMITS(long, -9223372036854775807L - 1, 9223372036854775807L)
KCU_LIMITS(unsigned long, 0, 18446744073709551615UL)
KCU_LIMITS(long long, -9223372036854775807LL - 1, 9223372036854775807LL)
KCU_LIMITS(unsigned long long, 0, 18446744073709551615ULL)
#undef KCU_LIMITS
#define KCU_LIMITS(T, SMALLEST, HIGHEST, STEP, INFINITE, NOTHING)                                            \
    template <> struct numeric_limits<T> {                                                                   \
        static constexpr bool is_specialized = true, is_integer = false, is_signed = true;                   \
        static constexpr T min() { return SMALLEST; }                                                        \
        static constexpr T lowest() { return -HIGHEST; }                                                     \
        static constexpr T max() { return HIGHEST; }                                                         \
        static constexpr T epsilon() { return STEP; }                                                        \
        static constexpr T infinity() { return INFINITE; }                                                   \
        static constexpr T quiet_NaN() { return NOTHING; }                                                   \
        static constexpr T denorm_min() { return SMALLEST * STEP; }                                          \
    };
KCU_LIMITS(float, 1.175494351e-38f, 3.402823466e+38f, 1.192092896e-07f, __builtin_inff(), __builtin_nanf(""))
KCU_LIMITS(double, 2.2250738585072014e-308, 1.7976931348623157e+308, 2.2204460492503131e-16, __builtin_inf(),
           __builtin_nan(""))
#undef KCU_LIMITS

template <class T> constexpr remove_reference_t<T> &&move(T &&value)
{
    return static_cast<remove_reference_t<T> &&>(value);
}
template <class T> constexpr T &&forward(remove_reference_t<T> &value) { return static_cast<T &&>(value); }
template <class T> KCU_API void swap(T &a, T &b)
{
    T kept = move(a);
    a = move(b);
    b = move(kept);
}
template <class T> constexpr const T &min(const T &a, const T &b) { return b < a ? b : a; }
template <class T> constexpr const T &max(const T &a, const T &b) { return a < b ? b : a; }
template <class A, class B> struct pair {
    A first;
    B second;
};
template <class A, class B> constexpr pair<A, B> make_pair(A a, B b) { return pair<A, B>{a, b}; }
template <class T, size_t N> struct array {
    T kept[N];
    constexpr T &operator[](size_t i) { return kept[i]; }
    constexpr const T &operator[](size_t i) const { return kept[i]; }
    constexpr size_t size() const { return N; }
    constexpr T *data() { return kept; }
    constexpr T *begin() { return kept; }
    constexpr T *end() { return kept + N; }
    constexpr const T *begin() const { return kept; }
    constexpr const T *end() const { return kept + N; }
    void fill(const T &value)
    {
        for (T &each : kept) each = value;
    }
};
template <class To, class From> KCU_API To bit_cast(const From &from) { return kcu_bits<To>(from); }

} // namespace kcu_std

// The functions of the global namespace, as <cmath> has them in `std`.
namespace kcu_std
{
using ::abs;
using ::acos;
using ::acosh;
using ::asin;
using ::asinh;
using ::atan;
using ::atan2;
using ::atanh;
using ::cbrt;
using ::ceil;
using ::copysign;
using ::cos;
using ::cosh;
using ::erf;
using ::erfc;
using ::exp;
using ::exp2;
using ::expm1;
using ::fabs;
using ::floor;
using ::fma;
using ::fmax;
using ::fmin;
using ::fmod;
using ::hypot;
using ::int16_t;
using ::int32_t;
using ::int64_t;
using ::int8_t;
using ::intptr_t;
using ::isfinite;
using ::isinf;
using ::isnan;
using ::ldexp;
using ::lgamma;
using ::log;
using ::log10;
using ::log1p;
using ::log2;
using ::pow;
using ::ptrdiff_t;
using ::rint;
using ::round;
using ::signbit;
using ::sin;
using ::sinh;
using ::size_t;
using ::sqrt;
using ::tan;
using ::tanh;
using ::tgamma;
using ::trunc;
using ::uint16_t;
using ::uint32_t;
using ::uint64_t;
using ::uint8_t;
using ::uintptr_t;
} // namespace kcu_std
namespace std
{
using namespace kcu_std;
}
namespace cuda
{
namespace std
{
using namespace kcu_std;
}
} // namespace cuda
