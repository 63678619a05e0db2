#include <cuda_bf16.h>

#define THREADS 1024
#define WARPS (THREADS / 32)
#define BINS 32768
#define EACH (BINS / THREADS)
#define ALL 0xffffffffu

typedef __nv_bfloat16 bf16;

// Unsigned numbers in the order of the logits; both zeros are the same.
__device__ __forceinline__ unsigned ordered(unsigned bits)
{
    return bits & 0x8000u ? 0x10000u - bits : bits | 0x8000u;
}

__device__ __forceinline__ float value_of(unsigned key)
{
    return __uint_as_float((key & 0x8000u ? key ^ 0x8000u : 0x10000u - key) << 16);
}

// Calls `use(index, key)` for all logits of a row.
template <typename Use> __device__ __forceinline__ void for_all(const bf16 *__restrict__ row, int vocab, const Use &use)
{
    if (vocab % 8 != 0) {
        for (int i = threadIdx.x; i < vocab; i += THREADS)
            use(i, ordered(reinterpret_cast<const unsigned short *>(row)[i]));
        return;
    }
#pragma unroll 4
    for (int i = threadIdx.x; i < vocab / 8; i += THREADS) {
        const uint4 bits = reinterpret_cast<const uint4 *>(row)[i];
        const unsigned word[4] = {bits.x, bits.y, bits.z, bits.w};
#pragma unroll
        for (int j = 0; j < 4; j++) {
            use(8 * i + 2 * j, ordered(word[j] & 0xffffu));
            use(8 * i + 2 * j + 1, ordered(word[j] >> 16));
        }
    }
}

__device__ __forceinline__ float mass_of(unsigned key, float largest, float by)
{
    return expf((value_of(key) - largest) / by);
}

__device__ __forceinline__ double warp_sum(double value)
{
#pragma unroll
    for (int offset = 16; offset > 0; offset /= 2)
        value += __shfl_xor_sync(ALL, value, offset);
    return value;
}

__device__ __forceinline__ double block_sum(double value)
{
    __shared__ double parts[WARPS];
    value = warp_sum(value);
    __syncthreads();
    if (threadIdx.x % 32 == 0)
        parts[threadIdx.x / 32] = value;
    __syncthreads();
    return warp_sum(parts[threadIdx.x % 32]);
}

__device__ __forceinline__ unsigned block_max(unsigned value)
{
    __shared__ unsigned parts[WARPS];
    value = __reduce_max_sync(ALL, value);
    if (threadIdx.x % 32 == 0)
        parts[threadIdx.x / 32] = value;
    __syncthreads();
    return __reduce_max_sync(ALL, parts[threadIdx.x % 32]);
}

// The key where the masses of the counted keys, from the largest one down, reach `wanted`; 0 if they do not.
__device__ __forceinline__ unsigned key_in_bins(const int *bins, unsigned top, float largest, float by, double mine,
                                                double wanted)
{
    __shared__ double parts[WARPS];
    __shared__ unsigned found;
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    double upto = mine;
#pragma unroll
    for (int offset = 1; offset < 32; offset *= 2) {
        const double other = __shfl_up_sync(ALL, upto, offset);
        upto += lane >= offset ? other : 0.0;
    }
    if (threadIdx.x == 0)
        found = 0;
    if (lane == 31)
        parts[warp] = upto;
    __syncthreads();
    double at = upto - mine;
    for (int i = 0; i < warp; i++)
        at += parts[i];
    if (at < wanted && at + mine >= wanted)
        for (int i = threadIdx.x * EACH; i < (threadIdx.x + 1) * EACH; i++) {
            at += bins[i] == 0 ? 0.0 : static_cast<double>(bins[i]) * mass_of(top - i, largest, by);
            if (bins[i] != 0)
                found = top - i;
            if (at >= wanted)
                break;
        }
    __syncthreads();
    return found;
}

// Bit by bit over the whole row, for bounds far below the largest logit.
__device__ __forceinline__ unsigned key_by_bits(const bf16 *__restrict__ row, int vocab, float largest, float by,
                                                double wanted)
{
    unsigned key = 0;
    for (int bit = 15; bit >= 0; bit--) {
        const unsigned trial = key | 1u << bit;
        double sum = 0.0;
        for_all(row, vocab, [&](int, unsigned own) { sum += own >= trial ? mass_of(own, largest, by) : 0.0f; });
        if (block_sum(sum) >= wanted)
            key = trial;
    }
    return key;
}

// The sum of all threads' values before this one's.
__device__ __forceinline__ double block_before(double mine)
{
    __shared__ double parts[WARPS];
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    double upto = mine;
#pragma unroll
    for (int offset = 1; offset < 32; offset *= 2) {
        const double other = __shfl_up_sync(ALL, upto, offset);
        upto += lane >= offset ? other : 0.0;
    }
    if (lane == 31)
        parts[warp] = upto;
    __syncthreads();
    double before = upto - mine;
    for (int i = 0; i < warp; i++)
        before += parts[i];
    return before;
}

// Every warp sums a stretch of the row; the threads share out the one that holds the target, a few tokens each.
template <typename Mass>
__device__ __forceinline__ void pick(const bf16 *__restrict__ row, int vocab, unsigned least, float uniform,
                                     int *__restrict__ token, const Mass &mass)
{
    __shared__ double sums[WARPS];
    const unsigned short *bits = reinterpret_cast<const unsigned short *>(row);
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, each = ((vocab + WARPS - 1) / WARPS + 7) / 8 * 8;
    const int begin = min(vocab, warp * each), end = min(vocab, begin + each);
    double sum = 0.0, whole = 0.0;
    if (vocab % 8 == 0) {
#pragma unroll 4
        for (int i = begin / 8 + lane; i < end / 8; i += 32) {
            const uint4 eight = reinterpret_cast<const uint4 *>(row)[i];
            const unsigned word[4] = {eight.x, eight.y, eight.z, eight.w};
#pragma unroll
            for (int j = 0; j < 4; j++) {
                const unsigned low = ordered(word[j] & 0xffffu), high = ordered(word[j] >> 16);
                if (low >= least)
                    sum += mass(low);
                if (high >= least)
                    sum += mass(high);
            }
        }
    } else {
        for (int i = begin + lane; i < end; i += 32) {
            const unsigned key = ordered(bits[i]);
            if (key >= least)
                sum += mass(key);
        }
    }
    sum = warp_sum(sum);
    if (lane == 0)
        sums[warp] = sum;
    __syncthreads();
#pragma unroll 4
    for (int i = 0; i < WARPS; i++)
        whole += sums[i];
    const double target = uniform * whole;
    double before = 0.0;
    int holder = 0;
#pragma unroll 1
    while (holder < WARPS - 1 && target >= before + sums[holder])
        before += sums[holder++];
    const int stretch = min(vocab, holder * each), stop = min(vocab, stretch + each);
    const int share = (each + THREADS - 1) / THREADS;
    const int first = stretch + threadIdx.x * share, last = min(stop, first + share);
    double own = 0.0;
    for (int i = first; i < last; i++) {
        const unsigned key = ordered(bits[i]);
        own += key >= least ? mass(key) : 0.0f;
    }
    before += block_before(own);
    if (target < before || target >= before + own)
        return;
    for (int i = first; i < last; i++) {
        const unsigned key = ordered(bits[i]);
        before += key >= least ? mass(key) : 0.0f;
        if (target < before) {
            *token = i;
            return;
        }
    }
}

// Equal logits have equal masses: half of all values of a bfloat16, the largest logit's and those below it, are counted
// in shared memory, and each is exponentiated once; its mass then takes the place of its count, for the last sweep.
extern "C" __global__ void __launch_bounds__(THREADS, 1)
    sample(const bf16 *__restrict__ logits, const float *__restrict__ uniform, int *__restrict__ token, int vocab,
           float temperature, float share)
{
    extern __shared__ int bins[];
    const bf16 *row = logits + static_cast<size_t>(blockIdx.x) * vocab;
    unsigned best = 0;
    for (int i = threadIdx.x; i < BINS; i += THREADS)
        bins[i] = 0;
    for_all(row, vocab, [&](int, unsigned key) { best = max(best, key); });
    const unsigned top = block_max(best);
    const float largest = value_of(top), by = temperature;
    double rest = 0.0, mine = 0.0;
    for_all(row, vocab, [&](int, unsigned key) {
        if (top - key < BINS)
            atomicAdd(&bins[top - key], 1);
        else
            rest += mass_of(key, largest, by);
    });
    __syncthreads();
    // Lanes begin at different bins of their stretches, or they would all meet in one bank.
    for (int j = 0; j < EACH; j++) {
        const int i = threadIdx.x * EACH + (j + threadIdx.x) % EACH;
        mine += bins[i] == 0 ? 0.0 : static_cast<double>(bins[i]) * mass_of(top - i, largest, by);
    }
    const double wanted = share * block_sum(rest + mine);
    unsigned least = key_in_bins(bins, top, largest, by, mine, wanted);
    if (least == 0) {
        least = key_by_bits(row, vocab, largest, by, wanted);
        pick(row, vocab, least, uniform[blockIdx.x], token + blockIdx.x,
             [&](unsigned key) { return mass_of(key, largest, by); });
        return;
    }
    for (int i = threadIdx.x; i < BINS; i += THREADS)
        if (bins[i] != 0)
            bins[i] = __float_as_int(mass_of(top - i, largest, by));
    __syncthreads();
    pick(row, vocab, least, uniform[blockIdx.x], token + blockIdx.x,
         [&](unsigned key) { return __int_as_float(bins[top - key]); });
}
