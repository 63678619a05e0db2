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

// What a collective's storage takes with NVRTC, where a side may ask for its size. The emulator's own collectives need
// less; where they need more, they use memory of their own. Of each type here only size and alignment count.
// Source: CCCL 3.0, the `_TempStorage` of each collective; tests/backends/test_library_types.py compares them.
template <class T> struct kcu_raw { // in words of the largest type that fits, up to 16 bytes
    static constexpr size_t limit = alignof(T) < 16 ? alignof(T) : 16;
    alignas(limit) unsigned char bytes[sizeof(T)];
};
constexpr int kcu_log2(int n) { return n <= 1 ? 0 : 1 + kcu_log2((n + 1) / 2); }
constexpr bool kcu_is_power(int n) { return (n & (n - 1)) == 0; }
struct kcu_nothing {};
template <class T, int N> struct kcu_reduce_cells {
    static constexpr int count = N + (1 << kcu_log2(N) >> 1);
    T values[count];
    unsigned char flags[count];
};
template <class T, int N> struct kcu_scan_cells {
    T values[N + (1 << kcu_log2(N) >> 1)];
};
template <class T, int N>
using kcu_reduce_room = kcu_raw<::kcu_std::conditional_t<kcu_is_power(N), kcu_nothing, kcu_reduce_cells<T, N>>>;
template <class T, int N>
using kcu_scan_room = kcu_raw<::kcu_std::conditional_t<kcu_is_power(N), kcu_nothing, kcu_scan_cells<T, N>>>;
// One warp goes over the values of a block, each lane over a segment.
template <class T, int Threads> struct alignas(16) kcu_rake_grid {
    static constexpr int most = Threads < 32 ? Threads : 32, segment = (Threads + most - 1) / most;
    static constexpr int lanes = (Threads + segment - 1) / segment;
    T values[lanes * (segment + (segment % 2 == 0 && segment > 2))];
};

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
    alignas(8) unsigned mask;
    short first, lane;
    kcu_part()
        : mask((N == 32 ? ~0u : (1u << N % 32) - 1) << kcu_lane / N * N), first(short(kcu_lane / N * N)),
          lane(short(kcu_lane % N))
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
    Storage &temp;                                                                                           \
    static Storage &own_storage()                                                                            \
    {                                                                                                        \
        __shared__ Storage own;                                                                              \
        return own;                                                                                          \
    }                                                                                                        \
    static Storage &inside(TempStorage &storage)                                                             \
    {                                                                                                        \
        if constexpr (sizeof(Storage) <= sizeof(TempStorage)) return reinterpret_cast<Storage &>(storage);   \
        return own_storage();                                                                                \
    }                                                                                                        \
                                                                                                             \
public:                                                                                                      \
    explicit NAME(int kcu_line = __builtin_LINE()) : kcu_base(kcu_line), temp(own_storage()) {}              \
    NAME(TempStorage &storage, int kcu_line = __builtin_LINE()) : kcu_base(kcu_line), temp(inside(storage)) {}
