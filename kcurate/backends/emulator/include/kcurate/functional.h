// Function objects of `cuda::std` and `cuda`. Source: C++17 [function.objects]; CUDA C++ Core Libraries (libcu++),
// "Function Objects".
#pragma once

#include "more_traits.h"

#define KCU_FUNCTION(NAME, RESULT)                                                                           \
    template <class T = void> struct NAME {                                                                  \
        constexpr auto operator()(const T &a, const T &b) const { return RESULT; }                           \
    };                                                                                                       \
    template <> struct NAME<void> {                                                                          \
        template <class A, class B> constexpr auto operator()(const A &a, const B &b) const                  \
        {                                                                                                    \
            return RESULT;                                                                                   \
        }                                                                                                    \
    };
// Its result has the type of its arguments, also where they are smaller than int.
#define KCU_ARITHMETIC(NAME, RESULT)                                                                         \
    template <class T = void> struct NAME {                                                                  \
        constexpr T operator()(const T &a, const T &b) const { return RESULT; }                              \
    };                                                                                                       \
    template <> struct NAME<void> {                                                                          \
        template <class A, class B> constexpr auto operator()(const A &a, const B &b) const                  \
        {                                                                                                    \
            return RESULT;                                                                                   \
        }                                                                                                    \
    };
#define KCU_UNARY(NAME, RESULT)                                                                              \
    template <class T = void> struct NAME {                                                                  \
        constexpr auto operator()(const T &a) const { return RESULT; }                                       \
    };                                                                                                       \
    template <> struct NAME<void> {                                                                          \
        template <class A> constexpr auto operator()(const A &a) const { return RESULT; }                    \
    };

namespace kcu_std
{
KCU_ARITHMETIC(plus, a + b)
KCU_ARITHMETIC(minus, a - b)
KCU_ARITHMETIC(multiplies, a *b)
KCU_ARITHMETIC(divides, a / b)
KCU_ARITHMETIC(modulus, a % b)
KCU_ARITHMETIC(bit_and, a &b)
KCU_ARITHMETIC(bit_or, a | b)
KCU_ARITHMETIC(bit_xor, a ^ b)
KCU_FUNCTION(equal_to, a == b)
KCU_FUNCTION(not_equal_to, a != b)
KCU_FUNCTION(less, a < b)
KCU_FUNCTION(greater, b < a)
KCU_FUNCTION(less_equal, a <= b)
KCU_FUNCTION(greater_equal, a >= b)
KCU_FUNCTION(logical_and, a &&b)
KCU_FUNCTION(logical_or, a || b)
KCU_UNARY(negate, -a)
KCU_UNARY(logical_not, !a)
KCU_UNARY(bit_not, ~a)
struct identity {
    template <class T> constexpr T &&operator()(T &&value) const { return static_cast<T &&>(value); }
};
} // namespace kcu_std
namespace cuda
{
#define KCU_EXTREME(NAME, RESULT)                                                                            \
    template <class T = void> struct NAME {                                                                  \
        constexpr T operator()(const T &a, const T &b) const { return RESULT; }                              \
    };                                                                                                       \
    template <> struct NAME<void> {                                                                          \
        template <class A, class B> constexpr ::kcu_std::common_type_t<A, B> operator()(const A &a, const B &b) const \
        {                                                                                                    \
            return RESULT;                                                                                   \
        }                                                                                                    \
    };
KCU_EXTREME(maximum, a < b ? b : a)
KCU_EXTREME(minimum, b < a ? b : a)
} // namespace cuda
#undef KCU_FUNCTION
#undef KCU_ARITHMETIC
#undef KCU_UNARY
#undef KCU_EXTREME
