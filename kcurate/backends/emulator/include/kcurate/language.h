// The words that CUDA C++ adds to C++, for a compiler of the host.
#pragma once

#include "abi.h"

#define __CUDACC__ 1
#define __CUDACC_RTC__ 1
#define __CUDACC_VER_MAJOR__ 13
#define __CUDACC_VER_MINOR__ 0
#define __CUDA_ARCH__ 900
#define __CUDA_ARCH_LIST__ 900
#define __CUDA_ARCH_FEAT_SM90_ALL 1
#define __CUDA_ARCH_SPECIFIC__ 900
#define __CUDA_ARCH_FAMILY_SPECIFIC__ 900
#define __KCURATE_EMULATOR__ 1
#define CUDART_VERSION 13000

#define __global__
#define __device__
#define __host__
#define __managed__
#define __constant__
#define __grid_constant__
// Shared variables of a block lie in one section, which the runtime poisons before each block. (Internal
// linkage of all device code keeps the section free of COMDAT groups.)
#define __shared__ static __attribute__((section("kcu_shared")))
#define __launch_bounds__(...)
#define __maxnreg__(...)
#define __cluster_dims__(...)
#define __block_size__(...)
#define __forceinline__ inline __attribute__((always_inline))
#define __inline__ inline
#define __noinline__ __attribute__((noinline))
#define __align__(n) __attribute__((aligned(n)))
#define __builtin_align__(n) __attribute__((aligned(n)))
#define __restrict __restrict__
#define __cdecl
#define CUDARTAPI
#define __nv_pure__
#define __CUDA_ALIGN__(n) __align__(n)
#define __builtin_assume(...) ((void)0)
#define KCU_PRAGMA(...)

#define KCU_API KCU_WHOLE static inline __attribute__((unused))
#define NULL 0

typedef decltype(sizeof(0)) size_t;
typedef decltype((char *)0 - (char *)0) ptrdiff_t;
typedef signed char int8_t;
typedef short int16_t;
typedef int int32_t;
typedef long int64_t;
typedef unsigned char uint8_t;
typedef unsigned short uint16_t;
typedef unsigned int uint32_t;
typedef unsigned long uint64_t;
typedef long ssize_t;
#undef INT32_C
#undef INT64_C
#undef UINT32_C
#undef UINT64_C
typedef unsigned long uintptr_t;
typedef long intptr_t;
typedef unsigned long long cudaTextureObject_t;
typedef void *cudaStream_t;
typedef decltype(nullptr) nullptr_t;
static_assert(sizeof(long) == 8 && sizeof(void *) == 8, "the emulator needs a 64-bit system");

static const int warpSize = 32;

// The first bytes of a value as another type of the same size.
template <class To, class From> KCU_API To kcu_bits(const From &from)
{
    static_assert(sizeof(To) == sizeof(From), "sizes differ");
    To to;
    __builtin_memcpy(&to, &from, sizeof to);
    return to;
}

template <bool B, class T = void> struct kcu_enable {};
template <class T> struct kcu_enable<true, T> {
    typedef T type;
};
template <class T> struct kcu_identity {
    typedef T type;
};

// What a cast to an integer that a side writes makes of a number (`source.saturating`): as on a GPU the nearest integer
// of 32 or 64 bits, narrowed by leaving bits out, and of NaN 0 (64 bits: the lowest). Source: PTX ISA, "cvt".
template <class I> struct KcuInteger {
    I value;
    template <class X> KCU_WHOLE constexpr KcuInteger(const X &x) : value(I(x)) {}
    KCU_WHOLE constexpr KcuInteger(const float &x) : value(nearest(x)) {}
    KCU_WHOLE constexpr KcuInteger(const double &x) : value(nearest(x)) {}
    KCU_WHOLE constexpr operator I() const { return value; }

    KCU_WHOLE static constexpr I nearest(double x)
    {
        constexpr bool minus = I(-1) < I(0), wide = sizeof(I) == 8;
        // The highest number that each type holds and that is an integer.
        constexpr double most = wide ? (minus ? 0x1.fffffffffffffp62 : 0x1.fffffffffffffp63)
                                     : (minus ? 0x7fffffff : 0xffffffff);
        constexpr double least = !minus ? 0 : wide ? -0x1p63 : -0x1p31;
        constexpr unsigned long long highest = minus ? ~0ull >> 1 : ~0ull, none = wide ? 1ull << 63 : 0;
        const double inside = x > least ? (x < most ? x : most) : least;
        const I nearest = minus ? I((long long)inside) : I((unsigned long long)inside);
        return x != x ? I(none) : wide && x > most ? I(highest) : nearest;
    }
};
template <class T> struct kcu_integer {
    typedef T type;
};
#define KCU_INTEGER(T)                                                                                       \
    template <> struct kcu_integer<T> {                                                                      \
        typedef KcuInteger<T> type;                                                                          \
    };
KCU_INTEGER(char)
KCU_INTEGER(signed char)
KCU_INTEGER(unsigned char)
KCU_INTEGER(short)
KCU_INTEGER(unsigned short)
KCU_INTEGER(int)
KCU_INTEGER(unsigned)
KCU_INTEGER(long)
KCU_INTEGER(unsigned long)
KCU_INTEGER(long long)
KCU_INTEGER(unsigned long long)
template <class T> using kcu_saturated = typename kcu_integer<T>::type;

// A variable as the left operand of what changes it is read at once (`evaluation_order.from_the_left`).
template <class T> constexpr decltype(auto) kcu_now(T &value)
{
    if constexpr (__is_class(T) || __is_union(T)) {
        return (value);
    } else {
        auto now = value;
        return now;
    }
}
template <class T> constexpr T kcu_now(T &&value) { return static_cast<T &&>(value); }

// What a side writes as `a << b` is `a << kcu_by << b` here (`source.shifting`), which binds as tightly, and `a <<= b`
// is `a <<= kcu_by = b`. As on a GPU, numbers of 32 or 64 bits are shifted by the last 32 bits of `b`, and all bits are
// gone where these are more. Source: PTX ISA, "shl", "shr".
#define KCU_SHIFTING __attribute__((always_inline)) constexpr
template <class B> struct KcuAmount {
    B by;
};
static constexpr struct KcuBy {
    template <class B> KCU_SHIFTING KcuAmount<B> operator=(B by) const { return {by}; }
} kcu_by{};
template <class T> struct kcu_shifted {
    static constexpr bool is_number = false;
};
#define KCU_SHIFTED(T)                                                                                       \
    template <> struct kcu_shifted<T> {                                                                      \
        static constexpr bool is_number = true;                                                              \
    };
KCU_SHIFTED(int)
KCU_SHIFTED(unsigned)
KCU_SHIFTED(long)
KCU_SHIFTED(unsigned long)
KCU_SHIFTED(long long)
KCU_SHIFTED(unsigned long long)
#undef KCU_SHIFTED
#define KCU_SHIFT(SIGN, LEFT, GONE)                                                                          \
    template <class A> struct LEFT {                                                                         \
        A value;                                                                                             \
    };                                                                                                       \
    template <class A> KCU_SHIFTING LEFT<A> operator SIGN(A value, KcuBy) { return {value}; }                \
    template <class A, class B> KCU_SHIFTING auto operator SIGN(LEFT<A> left, B by)                          \
    {                                                                                                        \
        using T = decltype(left.value SIGN by);                                                              \
        if constexpr (kcu_shifted<T>::is_number) {                                                           \
            const T value = left.value;                                                                      \
            return unsigned(by) < 8 * sizeof(T) ? T(value SIGN unsigned(by)) : T(GONE);                      \
        } else {                                                                                             \
            return left.value SIGN by;                                                                       \
        }                                                                                                    \
    }                                                                                                        \
    template <class A, class B> KCU_SHIFTING decltype(auto) operator SIGN##=(A &target, KcuAmount<B> amount) \
    {                                                                                                        \
        if constexpr (__is_class(A))                                                                         \
            return target SIGN##= amount.by;                                                                 \
        else                                                                                                 \
            return target = A(target SIGN kcu_by SIGN amount.by);                                            \
    }
KCU_SHIFT(<<, KcuLeft, 0)
KCU_SHIFT(>>, KcuRight, value < 0 ? -1 : 0)
#undef KCU_SHIFT

template <class... A> KCU_API int printf(const char *, A...) { return 0; }
// As with NDEBUG.
#define assert(...) ((void)0)
KCU_API void __trap() { kcu_fault(KCU_LAUNCH, "a trap"); }
KCU_API void __brkpt() { kcu_fault(KCU_LAUNCH, "a breakpoint"); }
KCU_API void __nanosleep(unsigned) { kcu_yield(); }
// Time does not pass here: each reading is one more than the last.
KCU_API long long clock64()
{
    static long long ticks;
    return ++ticks;
}
KCU_API long clock() { return clock64(); }

// Barriers. The line tells barriers apart when threads of one block wait at different ones.
#define __syncthreads() ((void)kcu_barrier(__LINE__, KCU_NONE, 0))
#define __syncthreads_count(p) kcu_barrier(__LINE__, KCU_COUNT, (p) ? 1 : 0)
#define __syncthreads_and(p) kcu_barrier(__LINE__, KCU_AND, (p) ? 1 : 0)
#define __syncthreads_or(p) kcu_barrier(__LINE__, KCU_OR, (p) ? 1 : 0)
KCU_API void __threadfence() { kcu_fence(); }
KCU_API void __threadfence_block() { kcu_spin(); }
KCU_API void __threadfence_system() { kcu_fence(); }
