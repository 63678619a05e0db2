// A sample bounds the answer from both sides, so that one sweep counts what lies below and lists what lies between,
// about one value in eighty; three passes of digits over the list find the answer. Should the bounds miss, they go
// over all. Four launches in all: the last block to sample finds the bounds, and the three passes are one cooperative
// launch in which each block chooses the digit for itself.
#include <cooperative_groups.h>

#define THREADS 512
#define DIGITS 2048
#define FULL 0xffffffffu
#define PREFIXES 65536
#define SAMPLES 262144
#define TILE (THREADS * 16)
#define ROOM 11264

__device__ __forceinline__ int warp_inclusive(int value, int lane)
{
#pragma unroll
    for (int distance = 1; distance < 32; distance *= 2) {
        const int other = __shfl_up_sync(FULL, value, distance);
        if (lane >= distance)
            value += other;
    }
    return value;
}

// The rank among the samples: the upper half in which it falls. A warp has a stretch of counts, of which `before` lie
// before it.
__device__ __forceinline__ void find_bound(const int *own, int before, int total, int wanted, int first,
                                           unsigned *bound, int lane)
{
    if (wanted < before || wanted >= before + total)
        return;
    for (int r = 0; r < PREFIXES / (THREADS / 32) / 128; r++) {
        const int4 four = __ldcg(reinterpret_cast<const int4 *>(own) + r * 32 + lane);
        const int sum = four.x + four.y + four.z + four.w;
        const int upto = before + warp_inclusive(sum, lane);
        if (wanted >= upto - sum && wanted < upto) {
            int prefix = first + r * 128 + lane * 4, passed = upto - sum + four.x;
            if (wanted >= passed) {
                prefix++, passed += four.y;
                if (wanted >= passed) {
                    prefix++, passed += four.z;
                    prefix += wanted >= passed;
                }
            }
            *bound = prefix;
        }
        before = __shfl_sync(FULL, upto, 31);
    }
}

// Counts the upper halves of values at equal distances. The last block then finds the upper halves that lie six standard
// deviations of the sampled rank below and above it.
extern "C" __global__ void __launch_bounds__(THREADS)
    sample_values(const unsigned *__restrict__ values, int *samples, int *done, unsigned *__restrict__ bounds, int n,
                  int k)
{
    constexpr int EACH = PREFIXES / (THREADS / 32);
    __shared__ int totals[THREADS / 32];
    __shared__ bool last;
    const int taken = min(n, SAMPLES), apart = n / taken;
    for (int i = blockIdx.x * THREADS + threadIdx.x; i < taken; i += gridDim.x * THREADS)
        atomicAdd(samples + (values[static_cast<long long>(i) * apart] >> 16), 1);
    __threadfence();
    __syncthreads();
    if (threadIdx.x == 0)
        last = atomicAdd(done, 1) == static_cast<int>(gridDim.x) - 1;
    __syncthreads();
    if (!last)
        return;
    __threadfence();
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const int rank = static_cast<int>(static_cast<long long>(k) * taken / n);
    const int margin = static_cast<int>(3.0f * sqrtf(static_cast<float>(taken))) + 8;
    const int *own = samples + warp * EACH;
    int sum = 0;
#pragma unroll 8
    for (int r = 0; r < EACH / 128; r++) {
        const int4 four = __ldcg(reinterpret_cast<const int4 *>(own) + r * 32 + lane);
        sum += four.x + four.y + four.z + four.w;
    }
    sum = __reduce_add_sync(FULL, sum);
    if (lane == 0)
        totals[warp] = sum;
    __syncthreads();
    const int before = __reduce_add_sync(FULL, lane < warp ? totals[lane] : 0);
    if (threadIdx.x == 0 && rank < margin)
        bounds[0] = 0;
    if (threadIdx.x == 0 && rank + margin >= taken)
        bounds[1] = PREFIXES - 1;
    find_bound(own, before, sum, rank - margin, warp * EACH, bounds, lane);
    find_bound(own, before, sum, rank + margin, warp * EACH, bounds + 1, lane);
}

// The list grows in shared memory and is written when it could overflow, and at the end.
extern "C" __global__ void __launch_bounds__(THREADS)
    filter(const unsigned *__restrict__ values, const unsigned *__restrict__ bounds, unsigned *__restrict__ list,
           int *__restrict__ tallies, int n)
{
    __shared__ unsigned found[ROOM];
    __shared__ int count, place;
    const unsigned low = bounds[0] << 16, reach = (bounds[1] << 16 | 0xffff) - low;
    int below = 0;
    if (threadIdx.x == 0)
        count = 0;
    __syncthreads();
    const int tiles = (n + TILE - 1) / TILE;
    for (int tile = blockIdx.x; tile < tiles; tile += gridDim.x) {
        const int first = tile * TILE + threadIdx.x * 4;
        unsigned item[16];
        if (n - tile * TILE >= TILE) {
#pragma unroll
            for (int r = 0; r < 16; r += 4) {
                const uint4 four = __ldcs(reinterpret_cast<const uint4 *>(values + first + r * THREADS));
                item[r] = four.x, item[r + 1] = four.y, item[r + 2] = four.z, item[r + 3] = four.w;
            }
#pragma unroll
            for (int r = 0; r < 16; r++) {
                below += item[r] < low;
                if (item[r] - low <= reach)
                    found[atomicAdd(&count, 1)] = item[r];
            }
        } else {
            for (int at = tile * TILE + threadIdx.x; at < n; at += THREADS) {
                const unsigned own = values[at];
                below += own < low;
                if (own - low <= reach)
                    found[atomicAdd(&count, 1)] = own;
            }
        }
        __syncthreads();
        const int here = count;
        if (here > ROOM - TILE || tile + static_cast<int>(gridDim.x) >= tiles) {
            if (threadIdx.x == 0)
                place = atomicAdd(tallies + 1, here);
            __syncthreads();
            for (int i = threadIdx.x; i < here; i += THREADS)
                list[place + i] = found[i];
            if (threadIdx.x == 0)
                count = 0;
        }
        __syncthreads();
    }
    below = __reduce_add_sync(FULL, below);
    if (threadIdx.x % 32 == 0)
        atomicAdd(tallies, below);
}

// Bits 31..21, 20..10 and 9..0 in three passes over the list, or over all values. After each, every block finds the digit in
// which the rank falls, by a scan of the counts.
extern "C" __global__ void __launch_bounds__(THREADS)
    select_value(const unsigned *__restrict__ all, const unsigned *__restrict__ list, const int *__restrict__ tallies,
                 int *counts, unsigned *__restrict__ answer, int all_count, int k)
{
    __shared__ __align__(16) int bins[DIGITS];
    __shared__ int totals[THREADS / 32];
    __shared__ unsigned shared_digit;
    __shared__ int shared_rank;
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const bool listed = k >= tallies[0] && k - tallies[0] < tallies[1];
    const unsigned *values = listed ? list : all;
    const int n = listed ? tallies[1] : all_count;
    const int thread = blockIdx.x * THREADS + threadIdx.x, threads = gridDim.x * THREADS;
    unsigned upper = 0;
    int rank = listed ? k - tallies[0] : k;
    for (int pass = 0; pass < 3; pass++) {
        for (int b = threadIdx.x; b < DIGITS; b += THREADS)
            bins[b] = 0;
        __syncthreads();
        const int shift = pass == 0 ? 21 : pass == 1 ? 10 : 0, above = pass == 1 ? 21 : 10;
        const unsigned mask = pass == 2 ? 1023 : 2047;
#pragma unroll 4
        for (int q = thread; q < n / 4; q += threads) {
            const uint4 four = __ldg(reinterpret_cast<const uint4 *>(values) + q);
            const unsigned item[4] = {four.x, four.y, four.z, four.w};
#pragma unroll
            for (int e = 0; e < 4; e++)
                if (pass == 0 || item[e] >> above == upper)
                    atomicAdd(bins + (item[e] >> shift & mask), 1);
        }
        for (int i = n / 4 * 4 + thread; i < n; i += threads)
            if (pass == 0 || values[i] >> above == upper)
                atomicAdd(bins + (values[i] >> shift & mask), 1);
        __syncthreads();
        for (int b = threadIdx.x; b < DIGITS; b += THREADS)
            if (bins[b])
                atomicAdd(counts + pass * DIGITS + b, bins[b]);
        cooperative_groups::this_grid().sync();
        const int4 four = __ldcg(reinterpret_cast<const int4 *>(counts + pass * DIGITS) + threadIdx.x);
        const int own = four.x + four.y + four.z + four.w;
        const int upto = warp_inclusive(own, lane);
        if (lane == 31)
            totals[warp] = upto;
        __syncthreads();
        const int before = __reduce_add_sync(FULL, lane < warp ? totals[lane] : 0) + upto - own;
        if (rank >= before && rank < before + own) {
            const int part[4] = {four.x, four.y, four.z, four.w};
            int digit = 4 * threadIdx.x, left = rank - before;
#pragma unroll
            for (int e = 0; e < 3; e++) {
                if (digit == static_cast<int>(4 * threadIdx.x) + e && left >= part[e]) {
                    left -= part[e];
                    digit++;
                }
            }
            shared_digit = digit;
            shared_rank = left;
        }
        __syncthreads();
        upper = upper << (pass == 2 ? 10 : 11) | shared_digit;
        rank = shared_rank;
    }
    if (thread == 0)
        *answer = upper;
}
