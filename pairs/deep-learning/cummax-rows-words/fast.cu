#include <cuda_fp16.h>

#define THREADS 128
#define WARPS (THREADS / 32)
#define ALL 0xffffffffu

// The value's order above, its place in the tile below, from 1 on: a later one of equal values is larger. Place 0 is
// what the tiles before have left.
__device__ __forceinline__ unsigned key_of(unsigned bits, int place)
{
    const unsigned order = bits & 0x8000u ? 0xffffu ^ bits : bits | 0x8000u;
    return (bits == 0x8000u ? 0x8000u : order) << 16 | place + 1;
}

__device__ __forceinline__ unsigned value_of(unsigned key)
{
    return key >> 31 ? key >> 16 & 0x7fffu : 0xffffu ^ key >> 16;
}

// Two neighbouring lanes have eight numbers each. They exchange four, so that each store of a warp fills whole sectors of
// 32 bytes: the even lane has what comes first and third, the odd lane what comes second and fourth.
__device__ __forceinline__ void put_pair(int *to, const int (&own)[8], int lane)
{
    const bool odd = lane % 2;
    int4 other;
    other.x = __shfl_xor_sync(0xffffffffu, odd ? own[0] : own[4], 1);
    other.y = __shfl_xor_sync(0xffffffffu, odd ? own[1] : own[5], 1);
    other.z = __shfl_xor_sync(0xffffffffu, odd ? own[2] : own[6], 1);
    other.w = __shfl_xor_sync(0xffffffffu, odd ? own[3] : own[7], 1);
    const int4 low = make_int4(own[0], own[1], own[2], own[3]), high = make_int4(own[4], own[5], own[6], own[7]);
    __stcs(reinterpret_cast<int4 *>(to - (odd ? 4 : 0)), odd ? other : low);
    __stcs(reinterpret_cast<int4 *>(to + (odd ? 4 : 8)), odd ? high : other);
}

struct Carry {
    unsigned order;
    int place;
};

// The largest before this thread; `carry` goes from what the tile began with to what it ends with.
__device__ __forceinline__ unsigned exclusive_in_block(unsigned key, Carry &carry, int tile)
{
    __shared__ unsigned parts[2][WARPS];
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, turn = tile / (8 * THREADS) % 2;
#pragma unroll
    for (int offset = 1; offset < 32; offset *= 2) {
        const unsigned other = __shfl_up_sync(ALL, key, offset);
        key = lane >= offset ? max(key, other) : key;
    }
    if (lane == 31)
        parts[turn][warp] = key;
    __syncthreads();
    unsigned before = __shfl_up_sync(ALL, key, 1), whole = carry.order;
    before = lane == 0 ? carry.order : max(before, carry.order);
#pragma unroll
    for (int i = 0; i < WARPS; i++) {
        const unsigned part = parts[turn][i];
        if (i < warp)
            before = max(before, part);
        whole = max(whole, part);
    }
    if (whole & 0xffffu)
        carry.place = tile + static_cast<int>(whole & 0xffffu) - 1;
    carry.order = whole & 0xffff0000u;
    return before;
}

extern "C" __global__ void __launch_bounds__(THREADS)
    cummax(const half *__restrict__ in, half *__restrict__ values, int *__restrict__ places, int cols)
{
    const size_t first = static_cast<size_t>(blockIdx.x) * cols;
    const unsigned short *words = reinterpret_cast<const unsigned short *>(in + first);
    unsigned short *best = reinterpret_cast<unsigned short *>(values + first);
    const bool whole = cols % 8 == 0;
    const uint4 *from = reinterpret_cast<const uint4 *>(words);
    const int groups = cols / 8;
    Carry carry = {0, 0};
    uint4 next = whole && threadIdx.x < groups ? __ldcs(from + threadIdx.x) : make_uint4(0, 0, 0, 0);
    for (int tile = 0; tile < cols; tile += 8 * THREADS) {
        const int i = tile / 8 + threadIdx.x, left = cols - 8 * i;
        const uint4 bits = next;
        if (whole && i + THREADS < groups)
            next = __ldcs(from + i + THREADS);
        const unsigned word[4] = {bits.x, bits.y, bits.z, bits.w};
        unsigned key[8];
#pragma unroll
        for (int j = 0; j < 8; j++) {
            unsigned own = j % 2 ? word[j / 2] >> 16 : word[j / 2] & 0xffffu;
            if (!whole && j < left)
                own = words[8 * i + j];
            key[j] = j < left ? key_of(own, 8 * threadIdx.x + j) : 0;
            if (j > 0)
                key[j] = max(key[j], key[j - 1]);
        }
        const int old = carry.place;
        const unsigned before = exclusive_in_block(key[7], carry, tile);
        unsigned result[4];
        int place[8];
#pragma unroll
        for (int j = 0; j < 8; j++) {
            const unsigned upto = max(before, key[j]), at = upto & 0xffffu;
            result[j / 2] = j % 2 ? result[j / 2] | value_of(upto) << 16 : value_of(upto);
            place[j] = at ? tile + static_cast<int>(at) - 1 : old;
        }
        if (whole && tile + 8 * THREADS <= cols)
            put_pair(places + first + 8 * i, place, threadIdx.x % 32);
        if (left <= 0)
            continue;
        if (whole) {
            __stcs(reinterpret_cast<uint4 *>(best) + i, make_uint4(result[0], result[1], result[2], result[3]));
            if (tile + 8 * THREADS <= cols)
                continue;
            int4 *to = reinterpret_cast<int4 *>(places + first) + 2 * i;
            __stcs(to, make_int4(place[0], place[1], place[2], place[3]));
            __stcs(to + 1, make_int4(place[4], place[5], place[6], place[7]));
            continue;
        }
#pragma unroll
        for (int j = 0; j < 8; j++)
            if (j < left) {
                best[8 * i + j] = static_cast<unsigned short>(result[j / 2] >> j % 2 * 16);
                places[first + 8 * i + j] = place[j];
            }
    }
}
