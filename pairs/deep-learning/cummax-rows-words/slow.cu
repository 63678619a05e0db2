#include <cuda_fp16.h>

#define THREADS 128
#define WARPS (THREADS / 32)
#define ALL 0xffffffffu

typedef unsigned long long Key;

// The value's order in the upper half, the place below: a later one of equal values is larger.
__device__ __forceinline__ Key key_of(unsigned bits, int place)
{
    const unsigned high = (bits & 0x7fffu) == 0 ? 0x8000u : bits & 0x8000u ? 0xffffu ^ bits : bits | 0x8000u;
    return static_cast<Key>(high) << 48 | static_cast<Key>(bits) << 32 | static_cast<unsigned>(place);
}

// The order decides first; of equal orders (both zeros) the later place, whatever its sign.
__device__ __forceinline__ Key larger(Key a, Key b)
{
    const unsigned left = static_cast<unsigned>(a >> 48), right = static_cast<unsigned>(b >> 48);
    return left != right ? (left > right ? a : b) : (static_cast<unsigned>(a) > static_cast<unsigned>(b) ? a : b);
}

__device__ __forceinline__ Key inclusive(Key key)
{
#pragma unroll
    for (int offset = 1; offset < 32; offset *= 2) {
        const Key other = __shfl_up_sync(ALL, key, offset);
        key = threadIdx.x % 32 >= offset ? larger(key, other) : key;
    }
    return key;
}

// The largest before this thread; `carry` goes from what the block began with to what it ends with.
__device__ __forceinline__ Key exclusive_in_block(Key key, Key &carry)
{
    __shared__ Key parts[WARPS];
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    const Key upto = inclusive(key);
    __syncthreads();
    if (lane == 31)
        parts[warp] = upto;
    __syncthreads();
    Key before = __shfl_up_sync(ALL, upto, 1);
    before = lane == 0 ? carry : larger(before, carry);
#pragma unroll
    for (int i = 0; i < WARPS; i++) {
        if (i < warp)
            before = larger(before, parts[i]);
        carry = larger(carry, parts[i]);
    }
    return before;
}

extern "C" __global__ void __launch_bounds__(THREADS)
    cummax(const half *__restrict__ in, half *__restrict__ values, int *__restrict__ places, int cols)
{
    const size_t first = static_cast<size_t>(blockIdx.x) * cols;
    const unsigned short *words = reinterpret_cast<const unsigned short *>(in + first);
    unsigned short *best = reinterpret_cast<unsigned short *>(values + first);
    Key carry = 0;
    if (cols % 8 != 0) {
        for (int tile = 0; tile < cols; tile += THREADS) {
            const int i = tile + threadIdx.x;
            const Key own = i < cols ? key_of(words[i], i) : 0;
            const Key upto = larger(exclusive_in_block(own, carry), own);
            if (i < cols) {
                best[i] = static_cast<unsigned short>(upto >> 32);
                places[first + i] = static_cast<int>(upto);
            }
        }
        return;
    }
    const uint4 *from = reinterpret_cast<const uint4 *>(words);
    const int groups = cols / 8;
    uint4 next = threadIdx.x < groups ? __ldcs(from + threadIdx.x) : make_uint4(0, 0, 0, 0);
    for (int tile = 0; tile < groups; tile += THREADS) {
        const int i = tile + threadIdx.x;
        const uint4 bits = next;
        if (i + THREADS < groups)
            next = __ldcs(from + i + THREADS);
        const unsigned word[4] = {bits.x, bits.y, bits.z, bits.w};
        Key key[8];
#pragma unroll
        for (int j = 0; j < 8; j++) {
            key[j] = i < groups ? key_of(j % 2 ? word[j / 2] >> 16 : word[j / 2] & 0xffffu, 8 * i + j) : 0;
            if (j > 0)
                key[j] = larger(key[j], key[j - 1]);
        }
        const Key before = exclusive_in_block(key[7], carry);
        if (i >= groups)
            continue;
        unsigned result[4];
        int place[8];
#pragma unroll
        for (int j = 0; j < 8; j++) {
            const Key upto = larger(before, key[j]);
            const unsigned value = static_cast<unsigned>(upto >> 32) & 0xffffu;
            result[j / 2] = j % 2 ? result[j / 2] | value << 16 : value;
            place[j] = static_cast<int>(upto);
        }
        __stcs(reinterpret_cast<uint4 *>(best) + i, make_uint4(result[0], result[1], result[2], result[3]));
        int4 *to = reinterpret_cast<int4 *>(places + first) + 2 * i;
        __stcs(to, make_int4(place[0], place[1], place[2], place[3]));
        __stcs(to + 1, make_int4(place[4], place[5], place[6], place[7]));
    }
}
