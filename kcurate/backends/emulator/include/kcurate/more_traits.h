// What `cuda::std` has in <type_traits>, <utility>, <bit> beyond the small part in traits.h; sides from extraction
// use it. Source: C++17 [meta], [utility]; C++20 [bit].
#pragma once

#include "traits.h"

namespace kcu_std
{
template <class...> using void_t = void;
template <class T> struct type_identity {
    typedef T type;
};
template <class T> using type_identity_t = T;
template <class T> T &&declval() noexcept;

template <class T> struct is_const : false_type {};
template <class T> struct is_const<const T> : true_type {};
template <class T> struct is_volatile : false_type {};
template <class T> struct is_volatile<volatile T> : true_type {};
template <class T> struct is_void : is_same<void, remove_cv_t<T>> {};
template <class T> struct is_null_pointer : is_same<decltype(nullptr), remove_cv_t<T>> {};
template <class T> struct is_array : false_type {};
template <class T> struct is_array<T[]> : true_type {};
template <class T, size_t N> struct is_array<T[N]> : true_type {};
template <class T> struct is_lvalue_reference : false_type {};
template <class T> struct is_lvalue_reference<T &> : true_type {};
template <class T> struct is_rvalue_reference : false_type {};
template <class T> struct is_rvalue_reference<T &&> : true_type {};
template <class T> struct is_reference
    : bool_constant<is_lvalue_reference<T>::value || is_rvalue_reference<T>::value> {};
template <class T> struct is_class : bool_constant<__is_class(T)> {};
template <class T> struct is_enum : bool_constant<__is_enum(T)> {};
template <class T> struct is_empty : bool_constant<__is_empty(T)> {};
template <class T> struct is_trivially_copyable : bool_constant<__is_trivially_copyable(T)> {};
template <class A, class B> struct is_base_of : bool_constant<__is_base_of(A, B)> {};
template <class T, class... A> struct is_constructible : bool_constant<__is_constructible(T, A...)> {};
template <class T> struct is_default_constructible : is_constructible<T> {};
template <class T> KCU_API true_type kcu_takes(T);
template <class From, class To, class = void> struct is_convertible : false_type {};
template <class From, class To>
struct is_convertible<From, To, decltype(void(kcu_takes<To>(declval<From>())))> : true_type {};
template <class V, class F, class... A> struct kcu_invocable : false_type {};
template <class F, class... A>
struct kcu_invocable<decltype(void(declval<F>()(declval<A>()...))), F, A...> : true_type {};
template <class F, class... A> struct is_invocable : kcu_invocable<void, F, A...> {};
template <class F, class... A> struct invoke_result {
    typedef decltype(declval<F>()(declval<A>()...)) type;
};
template <class F, class... A> using invoke_result_t = typename invoke_result<F, A...>::type;
#define KCU_VALUE(NAME) template <class... T> constexpr bool NAME##_v = NAME<T...>::value;
KCU_VALUE(is_arithmetic)
KCU_VALUE(is_const)
KCU_VALUE(is_void)
KCU_VALUE(is_array)
KCU_VALUE(is_reference)
KCU_VALUE(is_lvalue_reference)
KCU_VALUE(is_class)
KCU_VALUE(is_enum)
KCU_VALUE(is_empty)
KCU_VALUE(is_trivially_copyable)
KCU_VALUE(is_base_of)
KCU_VALUE(is_convertible)
KCU_VALUE(is_constructible)
KCU_VALUE(is_default_constructible)
KCU_VALUE(is_invocable)
template <class... B> struct conjunction : bool_constant<(true && ... && bool(B::value))> {};
template <class... B> struct disjunction : bool_constant<(false || ... || bool(B::value))> {};
template <class B> struct negation : bool_constant<!bool(B::value)> {};
KCU_VALUE(conjunction)
KCU_VALUE(disjunction)
KCU_VALUE(negation)
#undef KCU_VALUE

template <class T> using remove_cvref_t = remove_cv_t<remove_reference_t<T>>;
template <class T> struct remove_extent {
    typedef T type;
};
template <class T> struct remove_extent<T[]> {
    typedef T type;
};
template <class T, size_t N> struct remove_extent<T[N]> {
    typedef T type;
};
template <class T> using remove_extent_t = typename remove_extent<T>::type;
template <class T> using add_const_t = const T;
template <class T> using add_pointer_t = remove_reference_t<T> *;
template <class T> using add_lvalue_reference_t = T &;
template <class T> struct underlying_type {
    typedef __underlying_type(T) type;
};
template <class T> using underlying_type_t = typename underlying_type<T>::type;
template <class... T> struct common_type;
template <class T> struct common_type<T> {
    typedef decay_t<T> type;
};
template <class A, class B> struct common_type<A, B> {
    typedef decay_t<decltype(true ? declval<A>() : declval<B>())> type;
};
template <class A, class B, class... T> struct common_type<A, B, T...>
    : common_type<typename common_type<A, B>::type, T...> {};
template <class... T> using common_type_t = typename common_type<T...>::type;

template <class T, class U = T> KCU_API T exchange(T &place, U &&value)
{
    T old = move(place);
    place = forward<U>(value);
    return old;
}
template <class T, T... I> struct integer_sequence {
    typedef T value_type;
    static constexpr size_t size() { return sizeof...(I); }
};
template <size_t... I> using index_sequence = integer_sequence<size_t, I...>;
template <size_t N, class T, T... I> struct kcu_counted : kcu_counted<N - 1, T, T(N - 1), I...> {};
template <class T, T... I> struct kcu_counted<0, T, I...> {
    typedef integer_sequence<T, I...> type;
};
template <class T, T N> using make_integer_sequence = typename kcu_counted<size_t(N), T>::type;
template <size_t N> using make_index_sequence = make_integer_sequence<size_t, N>;
template <class... T> using index_sequence_for = make_index_sequence<sizeof...(T)>;

template <class T> constexpr int popcount(T x) { return __builtin_popcountll((unsigned long long)x); }
template <class T> constexpr int countl_zero(T x)
{
    return x ? __builtin_clzll((unsigned long long)x) - int(64 - 8 * sizeof(T)) : int(8 * sizeof(T));
}
template <class T> constexpr int countr_zero(T x)
{
    return x ? __builtin_ctzll((unsigned long long)x) : int(8 * sizeof(T));
}
template <class T> constexpr bool has_single_bit(T x) { return x && !(x & (x - 1)); }
template <class T> constexpr int bit_width(T x) { return int(8 * sizeof(T)) - countl_zero(x); }
template <class T> constexpr T bit_floor(T x) { return x ? T(T(1) << (bit_width(x) - 1)) : T(0); }
template <class T> constexpr T bit_ceil(T x) { return x <= 1 ? T(1) : T(T(1) << bit_width(T(x - 1))); }
} // namespace kcu_std
