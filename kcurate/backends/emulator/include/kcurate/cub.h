// What the block and warp collectives of CUB share: storage, ranks, lanes that look at each other's values.
//
// A collective waits where CUB's documentation says that it does, and nowhere else: as on a GPU, storage that is
// used again needs a barrier in between. Results that CUB leaves undefined are filled with a pattern.
// Source: CCCL documentation, "CUB: Block-wide, Warp-wide and Thread-level Primitives".
#pragma once

#include "functional.h"
#include "warp.h"

namespace cub
{
struct NullType {
    template <class T> NullType &operator=(const T &) { return *this; }
    bool operator==(const NullType &) const { return true; }
    bool operator!=(const NullType &) const { return false; }
};

// Values in shared memory that no constructor runs for.
template <class T, int N> struct kcu_room {
    alignas(T) char bytes[sizeof(T) * N];
    T &operator[](int i) { return reinterpret_cast<T *>(bytes)[i]; }
};
// A result that is not defined.
template <class T> KCU_API T kcu_undefined()
{
    alignas(T) char bytes[sizeof(T)];
    __builtin_memset(bytes, 0xA3, sizeof bytes);
    return *reinterpret_cast<T *>(bytes);
}

// The thread's rank in a block of this shape, row by row.
KCU_API int RowMajorTid(int x, int y, int z)
{
    return (z == 1 ? 0 : int(threadIdx.z) * x * y) + (y == 1 ? 0 : int(threadIdx.y) * x) + int(threadIdx.x);
}
// What a collective of a block knows; `line` is where the code makes it, which tells its barriers from others.
template <int X, int Y, int Z> struct kcu_block {
    static constexpr int THREADS = X * Y * Z, WARPS = (THREADS + 31) / 32;
    int line, rank;
    explicit kcu_block(int at) : line(at), rank(RowMajorTid(X, Y, Z))
    {
        if (rank >= THREADS) kcu_fault(KCU_LAUNCH, "a thread beyond those that a collective of CUB was declared for");
    }
    int warp() const { return rank / 32; }
    int lane() const { return int(kcu_lane); }
    void wait() const { kcu_barrier(line, KCU_NONE, 0); }
};

// The values of all lanes of a mask, as long as this lives; then they part together.
template <class T> struct kcu_lanes_of {
    unsigned mask;
    KcuMeet *meet;
    kcu_lanes_of(unsigned lanes, const T &own)
        : mask(lanes), meet(kcu_meet(lanes, KCU_GROUP, (unsigned long long)&own))
    {
    }
    kcu_lanes_of(const kcu_lanes_of &) = delete;
    bool has(int lane) const { return meet->arrived >> lane & 1; }
    T operator[](int lane) const { return has(lane) ? *(const T *)meet->value[lane] : kcu_undefined<T>(); }
    // Lanes `from` to below `to`, in their order, as a tree.
    template <class Op> T reduce(int from, int to, Op &op) const
    {
        if (to - from == 1) return (*this)[from];
        int half = 1;
        while (2 * half < to - from) half *= 2;
        return op(reduce(from, from + half, op), reduce(from + half, to, op));
    }
    // One lane after the other, as a scan does.
    template <class Op> T fold(int from, int to, Op &op) const
    {
        T all = (*this)[from];
        for (int lane = from + 1; lane < to; lane++) all = op(all, (*this)[lane]);
        return all;
    }
    ~kcu_lanes_of()
    {
        kcu_leave(meet);
        __syncwarp(mask);
    }
};
// A warp, or a part of one with N lanes.
template <int N> struct kcu_part {
    static_assert(N >= 1 && N <= 32, "a logical warp has 1 to 32 lanes");
    int first, lane;
    unsigned mask;
    kcu_part()
        : first(int(kcu_lane) / N * N), lane(int(kcu_lane) - first), mask((N == 32 ? ~0u : (1u << N % 32) - 1) << first)
    {
    }
};

template <class T, int N, class Op> KCU_API T kcu_fold(T (&items)[N], Op &op)
{
    T all = items[0];
    for (int i = 1; i < N; i++) all = op(all, items[i]);
    return all;
}

// Keys as unsigned numbers of the same order, and back.
template <size_t Size> struct kcu_unsigned;
template <> struct kcu_unsigned<1> { typedef unsigned char type; };
template <> struct kcu_unsigned<2> { typedef unsigned short type; };
template <> struct kcu_unsigned<4> { typedef unsigned type; };
template <> struct kcu_unsigned<8> { typedef unsigned long long type; };
template <class T> struct Traits {
    typedef typename kcu_unsigned<sizeof(T)>::type UnsignedBits;
    static constexpr UnsignedBits kcu_top = UnsignedBits(UnsignedBits(1) << (8 * sizeof(T) - 1));
    static UnsignedBits TwiddleIn(UnsignedBits bits)
    {
        if (::kcu_std::is_integral_v<T>) return ::kcu_std::is_unsigned_v<T> ? bits : UnsignedBits(bits ^ kcu_top);
        return UnsignedBits(bits & kcu_top ? ~bits : bits | kcu_top);
    }
    static UnsignedBits TwiddleOut(UnsignedBits bits)
    {
        if (::kcu_std::is_integral_v<T>) return TwiddleIn(bits);
        return UnsignedBits(bits & kcu_top ? bits & ~kcu_top : ~bits);
    }
};

template <class K, class V> struct KeyValuePair {
    typedef K Key;
    typedef V Value;
    K key;
    V value;
    KeyValuePair() = default;
    KeyValuePair(const K &k, const V &v) : key(k), value(v) {}
    bool operator!=(const KeyValuePair &other) const { return value != other.value || key != other.key; }
};
// The pair with the greater (lesser) value; of equal ones, that with the lesser key.
struct ArgMax {
    template <class K, class V>
    KeyValuePair<K, V> operator()(const KeyValuePair<K, V> &a, const KeyValuePair<K, V> &b) const
    {
        return b.value > a.value || (a.value == b.value && b.key < a.key) ? b : a;
    }
};
struct ArgMin {
    template <class K, class V>
    KeyValuePair<K, V> operator()(const KeyValuePair<K, V> &a, const KeyValuePair<K, V> &b) const
    {
        return b.value < a.value || (a.value == b.value && b.key < a.key) ? b : a;
    }
};
} // namespace cub

// A collective's storage, its own where the code gives it none, and its constructors.
#define KCU_COLLECTIVE(NAME)                                                                                 \
    TempStorage &temp;                                                                                       \
    static TempStorage &own_storage()                                                                        \
    {                                                                                                        \
        __shared__ TempStorage own;                                                                          \
        return own;                                                                                          \
    }                                                                                                        \
                                                                                                             \
public:                                                                                                      \
    explicit NAME(int kcu_line = __builtin_LINE()) : kcu_base(kcu_line), temp(own_storage()) {}              \
    NAME(TempStorage &given, int kcu_line = __builtin_LINE()) : kcu_base(kcu_line), temp(given) {}
