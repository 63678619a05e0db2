#include <cuda_bf16.h>

#define THREADS 1024
#define WARPS (THREADS / 32)
#define BINS 32768
#define EACH (BINS / THREADS)
#define BATCH 8
#define FEW 4
#define ALL 0xffffffffu

typedef __nv_bfloat16 bf16;
typedef __nv_bfloat162 bf16x2;

// Unsigned numbers in the order of the logits; both zeros are the same.
__device__ __forceinline__ unsigned ordered(unsigned bits)
{
    return bits & 0x8000u ? 0x10000u - bits : bits | 0x8000u;
}

__device__ __forceinline__ float value_of(unsigned key)
{
    return __uint_as_float((key & 0x8000u ? key ^ 0x8000u : 0x10000u - key) << 16);
}

// Calls `use(bits)` for all logits of a row.
template <typename Use> __device__ __forceinline__ void for_all(const bf16 *__restrict__ row, int vocab, const Use &use)
{
    if (vocab % 8 != 0) {
        for (int i = threadIdx.x; i < vocab; i += THREADS)
            use(reinterpret_cast<const unsigned short *>(row)[i]);
        return;
    }
    const uint4 *eights = reinterpret_cast<const uint4 *>(row);
    for (int first = threadIdx.x; first < vocab / 8; first += FEW * THREADS) {
        uint4 bits[FEW];
#pragma unroll
        for (int e = 0; e < FEW; e++)
            bits[e] = eights[min(first + e * THREADS, vocab / 8 - 1)];
#pragma unroll
        for (int e = 0; e < FEW; e++) {
            const int i = first + e * THREADS;
            const unsigned word[4] = {bits[e].x, bits[e].y, bits[e].z, bits[e].w};
            if (i < vocab / 8)
#pragma unroll
                for (int j = 0; j < 4; j++) {
                    use(word[j] & 0xffffu);
                    use(word[j] >> 16);
                }
        }
    }
}

// The largest key of a thread's logits of a row, by maxima of pairs.
__device__ __forceinline__ unsigned largest_key(const bf16 *__restrict__ row, int vocab)
{
    if (vocab % 8 != 0) {
        unsigned best = 0;
        for_all(row, vocab, [&](unsigned bits) { best = max(best, ordered(bits)); });
        return best;
    }
    const uint4 *eights = reinterpret_cast<const uint4 *>(row);
    const int last = vocab / 8 - 1;
    bf16x2 most = __float2bfloat162_rn(__uint_as_float(0xff800000u));
    for (int first = threadIdx.x; first <= last; first += BATCH * THREADS) {
        uint4 bits[BATCH];
#pragma unroll
        for (int e = 0; e < BATCH; e++)
            bits[e] = eights[min(first + e * THREADS, last)];
#pragma unroll
        for (int e = 0; e < BATCH; e++) {
            const bf16x2 *pair = reinterpret_cast<const bf16x2 *>(bits + e);
            most = __hmax2(most, __hmax2(__hmax2(pair[0], pair[1]), __hmax2(pair[2], pair[3])));
        }
    }
    return ordered(__float_as_uint(fmaxf(__low2float(most), __high2float(most))) >> 16);
}

__device__ __forceinline__ float mass_of(unsigned key, float largest, float by)
{
    return expf((value_of(key) - largest) / by);
}

__device__ __forceinline__ float power_of_two(float x)
{
    float power;
    asm volatile("ex2.approx.ftz.f32 %0, %1;" : "=f"(power) : "f"(x));
    return power;
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
        for_all(row, vocab, [&](unsigned bits) {
            const unsigned own = ordered(bits);
            sum += own >= trial ? mass_of(own, largest, by) : 0.0f;
        });
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
// in shared memory, and each is exponentiated once; its mass then takes the place of its count, for the last sweep. The
// many logits below count for little, so that sums of floats do for them.
extern "C" __global__ void __launch_bounds__(THREADS, 1)
    sample(const bf16 *__restrict__ logits, const float *__restrict__ uniform, int *__restrict__ token, int vocab,
           float temperature, float share)
{
    extern __shared__ int bins[];
    const bf16 *row = logits + static_cast<size_t>(blockIdx.x) * vocab;
    for (int i = threadIdx.x; i < BINS; i += THREADS)
        bins[i] = 0;
    const unsigned top = block_max(largest_key(row, vocab));
    const float largest = value_of(top), by = temperature;
    const float power = 1.4426950408889634f / by;
    float rest = 0.0f;
    double mine = 0.0;
    for_all(row, vocab, [&](unsigned bits) {
        const unsigned below = top - ordered(bits);
        const float mass = power_of_two((__uint_as_float(bits << 16) - largest) * power);
        if (below < BINS)
            atomicAdd(&bins[below], 1);
        rest += below < BINS ? 0.0f : mass;
    });
    __syncthreads();
    // Lanes begin at different bins of their stretches, or they would all meet in one bank.
    for (int j = 0; j < EACH; j++) {
        const int i = threadIdx.x * EACH + (j + threadIdx.x) % EACH;
        mine += bins[i] == 0 ? 0.0 : static_cast<double>(bins[i]) * mass_of(top - i, largest, by);
    }
    const double wanted = share * block_sum(mine + rest);
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
