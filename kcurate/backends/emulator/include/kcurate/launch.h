// How the runtime calls kernels: a function that unpacks the arguments, for any kernel's signature.
#pragma once

#include "language.h"

// Reading the arguments is no work of the kernel's, where work is counted.
#ifdef __clang__
#define KCU_UNCOUNTED __attribute__((no_sanitize("kernel-address"), no_sanitize("thread"), no_sanitize("coverage")))
#else
#define KCU_UNCOUNTED __attribute__((no_sanitize("kernel-address"), no_sanitize("thread"), no_sanitize_coverage))
#endif

template <int... I> struct kcu_numbers {};
template <int N, int... I> struct kcu_count : kcu_count<N - 1, N - 1, I...> {};
template <int... I> struct kcu_count<0, I...> {
    typedef kcu_numbers<I...> type;
};

template <class F> struct kcu_signature;
template <class... A> struct kcu_signature<void (*)(A...)> {
    static const unsigned count = sizeof...(A);
    static constexpr unsigned sizes[sizeof...(A) + 1] = {unsigned(sizeof(A))..., 0};
    template <int... I> KCU_UNCOUNTED static void call(void (*kernel)(A...), void **args, kcu_numbers<I...>)
    {
        kernel(*reinterpret_cast<A *>(args[I])...);
    }
    KCU_UNCOUNTED static void call(void (*kernel)(A...), void **args)
    {
        call(kernel, args, typename kcu_count<sizeof...(A)>::type());
    }
};
template <class... A> constexpr unsigned kcu_signature<void (*)(A...)>::sizes[];

template <class F, F kernel> KCU_UNCOUNTED void kcu_invoke(void **args) { kcu_signature<F>::call(kernel, args); }

#define KCU_ENTRY(NAME, X, Y, Z, ...)                                                                        \
    KcuEntry                                                                                                 \
    {                                                                                                        \
        NAME, kcu_invoke<decltype(&__VA_ARGS__), &__VA_ARGS__>,                                              \
            kcu_signature<decltype(&__VA_ARGS__)>::count, kcu_signature<decltype(&__VA_ARGS__)>::sizes,      \
            {X, Y, Z}                                                                                        \
    }
#define KCU_SYMBOL(NAME, ...)                                                                                \
    KcuSymbol { NAME, (void *)&__VA_ARGS__, sizeof(__VA_ARGS__) }
