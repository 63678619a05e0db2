// A sample bounds the answer from both sides, so that one sweep counts what lies below and lists what lies between,
// about one value in eighty; three passes of digits over the list find the answer. Should the bounds miss, they go
// over all.
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

// The upper halves of values at equal distances.
extern "C" __global__ void __launch_bounds__(THREADS)
    sample_values(const unsigned *__restrict__ values, int *__restrict__ samples, int n)
{
    const int taken = min(n, SAMPLES), apart = n / taken;
    for (int i = blockIdx.x * THREADS + threadIdx.x; i < taken; i += gridDim.x * THREADS)
        atomicAdd(samples + (values[static_cast<long long>(i) * apart] >> 16), 1);
}

// One block: the upper halves that lie six standard deviations of the sampled rank below and above it.
extern "C" __global__ void __launch_bounds__(1024)
    find_bounds(const int *__restrict__ samples, unsigned *__restrict__ bounds, int n, int k)
{
    constexpr int EACH = PREFIXES / 1024;
    __shared__ int totals[32];
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const int taken = min(n, SAMPLES), rank = static_cast<int>(static_cast<long long>(k) * taken / n);
    const int margin = static_cast<int>(3.0f * sqrtf(static_cast<float>(taken))) + 8;
    const int *own = samples + threadIdx.x * EACH;
    int sum = 0;
#pragma unroll
    for (int i = 0; i < EACH; i += 4) {
        const int4 four = *reinterpret_cast<const int4 *>(own + i);
        sum += four.x + four.y + four.z + four.w;
    }
    const int upto = warp_inclusive(sum, lane);
    if (lane == 31)
        totals[warp] = upto;
    __syncthreads();
    const int before_warps = warp_inclusive(lane < warp ? totals[lane] : 0, lane);
    const int before = __shfl_sync(FULL, before_warps, 31) + upto - sum;
    if (threadIdx.x == 0 && rank < margin)
        bounds[0] = 0;
    if (threadIdx.x == 0 && rank + margin >= taken)
        bounds[1] = PREFIXES - 1;
    for (int side = 0; side < 2; side++) {
        const int wanted = side == 0 ? rank - margin : rank + margin;
        if (wanted < before || wanted >= before + sum)
            continue;
        int prefix = 0;
        for (int passed = before + own[0]; passed <= wanted; passed += own[prefix])
            prefix++;
        bounds[side] = threadIdx.x * EACH + prefix;
    }
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

// Bits 31..21, 20..10 and 9..0 in three passes. `state` holds the upper bits found so far and the rank among what has
// them.
extern "C" __global__ void __launch_bounds__(THREADS)
    count_digits(const unsigned *__restrict__ all, const unsigned *__restrict__ list, const int *__restrict__ tallies,
                 const unsigned *__restrict__ state, int *__restrict__ counts, int all_count, int k, int pass)
{
    const bool listed = k >= tallies[0] && k - tallies[0] < tallies[1];
    const unsigned *values = listed ? list : all;
    const int n = listed ? tallies[1] : all_count;
    __shared__ int bins[DIGITS];
    for (int b = threadIdx.x; b < DIGITS; b += THREADS)
        bins[b] = 0;
    __syncthreads();
    const int shift = pass == 0 ? 21 : pass == 1 ? 10 : 0;
    const unsigned mask = pass == 2 ? 1023 : 2047, upper = pass == 0 ? 0 : state[0];
    const int above = pass == 1 ? 21 : 10;
    const int thread = blockIdx.x * THREADS + threadIdx.x, threads = gridDim.x * THREADS;
#pragma unroll 4
    for (int q = thread; q < n / 4; q += threads) {
        const uint4 four = __ldcs(reinterpret_cast<const uint4 *>(values) + q);
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
}

// One block: the digit in which the rank falls, by a scan of the counts.
extern "C" __global__ void __launch_bounds__(THREADS)
    choose(const int *__restrict__ counts, const int *__restrict__ tallies, unsigned *__restrict__ state,
           unsigned *__restrict__ answer, int k, int pass)
{
    const bool listed = k >= tallies[0] && k - tallies[0] < tallies[1];
    __shared__ int totals[THREADS / 32];
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const int rank = pass > 0 ? static_cast<int>(state[1]) : listed ? k - tallies[0] : k;
    const unsigned upper = pass == 0 ? 0 : state[0];
    const int4 four = reinterpret_cast<const int4 *>(counts + pass * DIGITS)[threadIdx.x];
    const int own = four.x + four.y + four.z + four.w;
    const int upto = warp_inclusive(own, lane);
    if (lane == 31)
        totals[warp] = upto;
    __syncthreads();
    int before = upto - own;
    for (int w = 0; w < warp; w++)
        before += totals[w];
    if (rank < before || rank >= before + own)
        return;
    const int part[4] = {four.x, four.y, four.z, four.w};
    int digit = 4 * threadIdx.x, left = rank - before;
#pragma unroll
    for (int e = 0; e < 3; e++) {
        if (digit == static_cast<int>(4 * threadIdx.x) + e && left >= part[e]) {
            left -= part[e];
            digit++;
        }
    }
    state[0] = upper << (pass == 2 ? 10 : 11) | digit;
    state[1] = left;
    if (pass == 2)
        *answer = state[0];
}
