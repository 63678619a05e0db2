// A key and its place share one 32-bit word where a segment's keys span less than 2^23, and a warp sorts up to 512 such
// words in registers: steps within a lane are a minimum and a maximum, steps between lanes a shuffle and one of them.
#define WARPS 4
#define LONGEST 512
#define PLACE_BITS 9
#define FULL 0xffffffffu

typedef unsigned long long word;

struct Staged {
    union {
        word items[LONGEST];
        struct {
            unsigned sorted[LONGEST];
            int values[LONGEST];
        };
    };
};

// Ascending in every step: the first of a level compares with the mirrored place.
template <int K> __device__ __forceinline__ void sort_registers(unsigned (&item)[K], int lane)
{
#pragma unroll
    for (int size = 2; size <= K; size *= 2) {
#pragma unroll
        for (int i = 0; i < K; i++) {
            const int other = i ^ (size - 1);
            if (i < other) {
                const unsigned low = min(item[i], item[other]), high = max(item[i], item[other]);
                item[i] = low, item[other] = high;
            }
        }
#pragma unroll
        for (int distance = size / 4; distance > 0; distance /= 2) {
#pragma unroll
            for (int i = 0; i < K; i++) {
                if ((i & distance) == 0) {
                    const unsigned low = min(item[i], item[i + distance]), high = max(item[i], item[i + distance]);
                    item[i] = low, item[i + distance] = high;
                }
            }
        }
    }
#pragma unroll
    for (int lanes = 2; lanes <= 32; lanes *= 2) {
        unsigned other[K];
#pragma unroll
        for (int i = 0; i < K; i++)
            other[i] = __shfl_xor_sync(FULL, item[K - 1 - i], lanes - 1);
#pragma unroll
        for (int i = 0; i < K; i++)
            item[i] = lane & lanes / 2 ? max(item[i], other[i]) : min(item[i], other[i]);
#pragma unroll
        for (int distance = lanes / 4; distance > 0; distance /= 2) {
#pragma unroll
            for (int i = 0; i < K; i++) {
                const unsigned far = __shfl_xor_sync(FULL, item[i], distance);
                item[i] = lane & distance ? max(item[i], far) : min(item[i], far);
            }
        }
#pragma unroll
        for (int distance = K / 2; distance > 0; distance /= 2) {
#pragma unroll
            for (int i = 0; i < K; i++) {
                if ((i & distance) == 0) {
                    const unsigned low = min(item[i], item[i + distance]), high = max(item[i], item[i + distance]);
                    item[i] = low, item[i + distance] = high;
                }
            }
        }
    }
}

__device__ __forceinline__ void copy_async(int *to, const int *from)
{
    const unsigned address = static_cast<unsigned>(__cvta_generic_to_shared(to));
    asm volatile("cp.async.ca.shared.global [%0], [%1], 4;" ::"r"(address), "l"(from) : "memory");
}

__device__ __forceinline__ void wait_async()
{
    asm volatile("cp.async.wait_all;" ::: "memory");
    __syncwarp();
}

// Values wait in shared memory. False where the keys span too much: nothing is written then.
template <int K>
__device__ __forceinline__ bool sort_narrow(const unsigned *__restrict__ keys, const int *__restrict__ values,
                                            unsigned *__restrict__ sorted_keys, int *__restrict__ sorted_values,
                                            int length, Staged &staged, int lane)
{
    unsigned item[K];
#pragma unroll
    for (int i = 0; i < K; i++)
        item[i] = keys[min(i * 32 + lane, length - 1)];
#pragma unroll
    for (int i = 0; i < K; i++)
        if (i * 32 + lane < length)
            copy_async(staged.values + i * 32 + lane, values + i * 32 + lane);
    unsigned least = item[0], most = item[0];
#pragma unroll
    for (int i = 1; i < K; i++) {
        least = min(least, item[i]);
        most = max(most, item[i]);
    }
    least = __reduce_min_sync(FULL, least);
    most = __reduce_max_sync(FULL, most);
    if ((most - least) >> (32 - PLACE_BITS))
        return false;
#pragma unroll
    for (int i = 0; i < K; i++) {
        const int at = i * 32 + lane;
        item[i] = at < length ? (item[i] - least) << PLACE_BITS | at : FULL;
    }
    sort_registers<K>(item, lane);
    if (K == 1) {
        wait_async();
        if (lane < length) {
            sorted_keys[lane] = least + (item[0] >> PLACE_BITS);
            sorted_values[lane] = staged.values[item[0] & (LONGEST - 1)];
        }
        return true;
    }
    // From places in a row a lane to places in a row a warp.
    if (K == 2) {
        *reinterpret_cast<uint2 *>(staged.sorted + lane * 2) = make_uint2(item[0], item[K - 1]);
    } else {
#pragma unroll
        for (int i = 0; i + 3 < K; i += 4)
            *reinterpret_cast<uint4 *>(staged.sorted + lane * K + i) =
                make_uint4(item[i], item[i + 1], item[i + 2], item[i + 3]);
    }
    wait_async();
#pragma unroll
    for (int i = 0; i < K; i++) {
        const int at = i * 32 + lane;
        if (at < length) {
            const unsigned own = staged.sorted[at];
            sorted_keys[at] = least + (own >> PLACE_BITS);
            sorted_values[at] = staged.values[own & (LONGEST - 1)];
        }
    }
    return true;
}

// Any keys: 64-bit words through shared memory.
__device__ __forceinline__ void sort_wide(const unsigned *__restrict__ keys, const int *__restrict__ values,
                                       unsigned *__restrict__ sorted_keys, int *__restrict__ sorted_values, int length,
                                       word *items, int lane)
{
    const int count = length > 1 ? 2 << (31 - __clz(length - 1)) : 1;
    for (int k = lane; k < count; k += 32)
        items[k] = k < length ? static_cast<word>(keys[k]) << 32 | k : ~0ull;
    __syncwarp();
    for (int size = 2; size <= count; size *= 2) {
        for (int distance = size / 2; distance > 0; distance /= 2) {
            for (int k = lane; k < count / 2; k += 32) {
                const int low = 2 * k - k % distance, high = low + distance;
                const word a = items[low], b = items[high];
                if ((a > b) == ((low & size) == 0)) {
                    items[low] = b;
                    items[high] = a;
                }
            }
            __syncwarp();
        }
    }
    for (int k = lane; k < length; k += 32) {
        sorted_keys[k] = static_cast<unsigned>(items[k] >> 32);
        sorted_values[k] = values[static_cast<int>(items[k] & FULL)];
    }
}

extern "C" __global__ void __launch_bounds__(32 * WARPS, 10)
    sort_segments(const int *__restrict__ offsets, const unsigned *__restrict__ keys, const int *__restrict__ values,
                  unsigned *__restrict__ sorted_keys, int *__restrict__ sorted_values, int segments)
{
    __shared__ __align__(16) Staged all[WARPS];
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const int segment = blockIdx.x * WARPS + warp;
    if (segment >= segments)
        return;
    const int begin = offsets[segment], length = offsets[segment + 1] - begin;
    if (length == 0)
        return;
    keys += begin, values += begin, sorted_keys += begin, sorted_values += begin;
    Staged &staged = all[warp];
    bool done;
    if (length <= 32)
        done = sort_narrow<1>(keys, values, sorted_keys, sorted_values, length, staged, lane);
    else if (length <= 64)
        done = sort_narrow<2>(keys, values, sorted_keys, sorted_values, length, staged, lane);
    else if (length <= 128)
        done = sort_narrow<4>(keys, values, sorted_keys, sorted_values, length, staged, lane);
    else if (length <= 256)
        done = sort_narrow<8>(keys, values, sorted_keys, sorted_values, length, staged, lane);
    else
        done = sort_narrow<16>(keys, values, sorted_keys, sorted_values, length, staged, lane);
    if (done)
        return;
    wait_async();
    sort_wide(keys, values, sorted_keys, sorted_values, length, staged.items, lane);
}
