// Largest digit first: one pass sends each key to one of 2048 buckets, in any order within a bucket, so that a tile
// takes its room by atomics and waits for no other; a bucket then fits in shared memory and is sorted there. Five
// times the keys' bytes move.
#define THREADS 512
#define WARPS (THREADS / 32)
#define FULL 0xffffffffu
#define LOW_BITS 21
#define BUCKETS 2048
#define EACH 32
#define TILE (THREADS * EACH)
#define HELD 28
#define CAPACITY 17408
#define BIN_BITS 13
#define BINS (1 << BIN_BITS)
#define CROWD 64
#define DIGITS 128

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

// Replaces COUNT counts in shared memory by the sums of those before each. Returns the largest count of the thread's.
template <int COUNT> __device__ __forceinline__ int block_exclusive(int *counts, int *totals)
{
    constexpr int ROUNDS = COUNT / (THREADS * 4);
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    int4 *own = reinterpret_cast<int4 *>(counts) + warp * (32 * ROUNDS) + lane;
    int4 item[ROUNDS];
    int start[ROUNDS], running = 0, largest = 0;
#pragma unroll
    for (int r = 0; r < ROUNDS; r++) {
        item[r] = own[r * 32];
        largest = max(max(max(item[r].x, item[r].y), max(item[r].z, item[r].w)), largest);
        const int sum = item[r].x + item[r].y + item[r].z + item[r].w;
        const int upto = warp_inclusive(sum, lane);
        start[r] = running + upto - sum;
        running += __shfl_sync(FULL, upto, 31);
    }
    if (lane == 0)
        totals[warp] = running;
    __syncthreads();
    const int before_warps = warp_inclusive(lane < warp ? totals[lane] : 0, lane);
    const int before = __shfl_sync(FULL, before_warps, 31);
#pragma unroll
    for (int r = 0; r < ROUNDS; r++) {
        int4 sum;
        sum.x = before + start[r];
        sum.y = sum.x + item[r].x;
        sum.z = sum.y + item[r].y;
        sum.w = sum.z + item[r].z;
        own[r * 32] = sum;
    }
    return largest;
}

extern "C" __global__ void __launch_bounds__(THREADS)
    count_digits(const unsigned *__restrict__ keys, int *__restrict__ counts, int n)
{
    __shared__ int bins[BUCKETS];
    for (int b = threadIdx.x; b < BUCKETS; b += THREADS)
        bins[b] = 0;
    __syncthreads();
    const int thread = blockIdx.x * THREADS + threadIdx.x, threads = gridDim.x * THREADS;
#pragma unroll 4
    for (int q = thread; q < n / 4; q += threads) {
        const uint4 key = reinterpret_cast<const uint4 *>(keys)[q];
        atomicAdd(bins + (key.x >> LOW_BITS), 1);
        atomicAdd(bins + (key.y >> LOW_BITS), 1);
        atomicAdd(bins + (key.z >> LOW_BITS), 1);
        atomicAdd(bins + (key.w >> LOW_BITS), 1);
    }
    if (thread < n % 4)
        atomicAdd(bins + (keys[n / 4 * 4 + thread] >> LOW_BITS), 1);
    __syncthreads();
    for (int b = threadIdx.x; b < BUCKETS; b += THREADS)
        if (bins[b])
            atomicAdd(counts + b, bins[b]);
}

// One block: where each bucket begins.
extern "C" __global__ void __launch_bounds__(THREADS)
    scan(const int *__restrict__ counts, int *__restrict__ starts, int *__restrict__ taken)
{
    __shared__ __align__(16) int sums[BUCKETS];
    __shared__ int totals[WARPS];
    for (int b = threadIdx.x; b < BUCKETS; b += THREADS)
        sums[b] = counts[b];
    __syncthreads();
    block_exclusive<BUCKETS>(sums, totals);
    __syncthreads();
    for (int b = threadIdx.x; b < BUCKETS; b += THREADS)
        starts[b] = taken[b] = sums[b];
}

// A tile is put in order of its buckets in shared memory and written in runs.
extern "C" __global__ void __launch_bounds__(THREADS, 2)
    partition(const unsigned *__restrict__ keys, unsigned *__restrict__ to, int *__restrict__ taken, int n)
{
    extern __shared__ __align__(16) unsigned staged[];
    int *bins = reinterpret_cast<int *>(staged + TILE), *shift_by = bins + BUCKETS;
    __shared__ int totals[WARPS];
#pragma unroll
    for (int b = threadIdx.x; b < BUCKETS; b += THREADS)
        bins[b] = 0;
    const int base = blockIdx.x * TILE, count = min(TILE, n - base);
    unsigned key[EACH];
#pragma unroll
    for (int r = 0; r < EACH; r += 4) {
        const int at = (r / 4 * THREADS + threadIdx.x) * 4;
        if (at + 3 < count) {
            const uint4 four = __ldcs(reinterpret_cast<const uint4 *>(keys + base + at));
            key[r] = four.x, key[r + 1] = four.y, key[r + 2] = four.z, key[r + 3] = four.w;
        } else {
#pragma unroll
            for (int e = 0; e < 4; e++)
                key[r + e] = at + e < count ? keys[base + at + e] : 0;
        }
    }
    __syncthreads();
#pragma unroll
    for (int r = 0; r < EACH; r++)
        if ((r / 4 * THREADS + threadIdx.x) * 4 + r % 4 < count)
            atomicAdd(bins + (key[r] >> LOW_BITS), 1);
    __syncthreads();
    int room[BUCKETS / THREADS];
#pragma unroll
    for (int j = 0; j < BUCKETS / THREADS; j++)
        room[j] = atomicAdd(taken + j * THREADS + threadIdx.x, bins[j * THREADS + threadIdx.x]);
    block_exclusive<BUCKETS>(bins, totals);
    __syncthreads();
#pragma unroll
    for (int j = 0; j < BUCKETS / THREADS; j++)
        shift_by[j * THREADS + threadIdx.x] = room[j] - bins[j * THREADS + threadIdx.x];
    __syncthreads();
#pragma unroll
    for (int r = 0; r < EACH; r++)
        if ((r / 4 * THREADS + threadIdx.x) * 4 + r % 4 < count)
            staged[atomicAdd(bins + (key[r] >> LOW_BITS), 1)] = key[r];
    __syncthreads();
#pragma unroll 8
    for (int r = 0; r < EACH; r++) {
        const int at = r * THREADS + threadIdx.x;
        if (at < count) {
            const unsigned item = staged[at];
            to[shift_by[item >> LOW_BITS] + at] = item;
        }
    }
}

__device__ __forceinline__ int bin_of(unsigned key)
{
    return key >> (LOW_BITS - BIN_BITS) & (BINS - 1);
}

// A block a bucket: keys, most of them held in registers, go to 8192 bins of about two, and each finds its place among
// those of its bin.
extern "C" __global__ void __launch_bounds__(THREADS, 2)
    sort_buckets(const unsigned *__restrict__ other, const int *__restrict__ starts, unsigned *__restrict__ keys,
                 int *__restrict__ left, int n)
{
    extern __shared__ __align__(16) unsigned staged[];
    int *bins = reinterpret_cast<int *>(staged + CAPACITY);
    __shared__ int totals[WARPS];
    const int start = starts[blockIdx.x];
    const int size = (blockIdx.x + 1 < BUCKETS ? starts[blockIdx.x + 1] : n) - start;
    const unsigned *from = other + start;
    unsigned *to = keys + start;
    if (threadIdx.x == 0)
        left[blockIdx.x] = size > CAPACITY;
    if (size == 0 || size > CAPACITY)
        return;
#pragma unroll
    for (int b = threadIdx.x; b < BINS / 4; b += THREADS)
        reinterpret_cast<int4 *>(bins)[b] = make_int4(0, 0, 0, 0);
    unsigned key[HELD];
#pragma unroll
    for (int r = 0; r < HELD; r++) {
        const int at = r * THREADS + threadIdx.x;
        key[r] = at < size ? __ldcs(from + at) : 0;
    }
    __syncthreads();
#pragma unroll
    for (int r = 0; r < HELD; r++)
        if (r * THREADS + threadIdx.x < size)
            atomicAdd(bins + bin_of(key[r]), 1);
    for (int at = HELD * THREADS + threadIdx.x; at < size; at += THREADS)
        atomicAdd(bins + bin_of(from[at]), 1);
    __syncthreads();
    const int largest = block_exclusive<BINS>(bins, totals);
    if (__syncthreads_or(largest > CROWD)) {
        if (threadIdx.x == 0)
            left[blockIdx.x] = 1;
        return;
    }
#pragma unroll
    for (int r = 0; r < HELD; r++)
        if (r * THREADS + threadIdx.x < size)
            staged[atomicAdd(bins + bin_of(key[r]), 1)] = key[r];
    for (int at = HELD * THREADS + threadIdx.x; at < size; at += THREADS) {
        const unsigned late = from[at];
        staged[atomicAdd(bins + bin_of(late), 1)] = late;
    }
    __syncthreads();
#pragma unroll 2
    for (int at = threadIdx.x; at < size; at += THREADS) {
        const unsigned own = staged[at];
        const int bin = bin_of(own);
        const int begin = bin > 0 ? bins[bin - 1] : 0, end = bins[bin];
        int place = begin;
        for (int i = begin; i < end; i++) {
            const unsigned item = staged[i];
            place += item < own || (item == own && i < at);
        }
        to[place] = own;
    }
}

// Three stable passes of seven bits, by one block, that end in `to`.
__device__ __forceinline__ void sort_long(unsigned *from, unsigned *to, int size)
{
    __shared__ int bins[WARPS * DIGITS], first[DIGITS];
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    for (int shift = 0; shift < LOW_BITS; shift += 7) {
        if (threadIdx.x < DIGITS)
            first[threadIdx.x] = 0;
        __syncthreads();
        for (int i = threadIdx.x; i < size; i += THREADS)
            atomicAdd(first + (from[i] >> shift & (DIGITS - 1)), 1);
        __syncthreads();
        if (warp == 0) {
            int before = 0;
            for (int d = lane; d < DIGITS; d += 32) {
                const int own = first[d], upto = warp_inclusive(own, lane);
                first[d] = before + upto - own;
                before += __shfl_sync(FULL, upto, 31);
            }
        }
        for (int base = 0; base < size; base += THREADS) {
            for (int i = threadIdx.x; i < WARPS * DIGITS; i += THREADS)
                bins[i] = 0;
            __syncthreads();
            const bool mine = base + static_cast<int>(threadIdx.x) < size;
            const unsigned key = mine ? from[base + threadIdx.x] : 0;
            const int digit = key >> shift & (DIGITS - 1);
            unsigned peers = __ballot_sync(FULL, mine);
#pragma unroll
            for (int bit = 0; bit < 7; bit++) {
                const bool set = digit >> bit & 1;
                const unsigned vote = __ballot_sync(FULL, set);
                peers &= set ? vote : ~vote;
            }
            const int within = __popc(peers & ((1u << lane) - 1));
            if (mine && within == 0)
                bins[warp * DIGITS + digit] = __popc(peers);
            __syncthreads();
            if (threadIdx.x < DIGITS) {
                int before = first[threadIdx.x];
                for (int w = 0; w < WARPS; w++) {
                    const int own = bins[w * DIGITS + threadIdx.x];
                    bins[w * DIGITS + threadIdx.x] = before;
                    before += own;
                }
                first[threadIdx.x] = before;
            }
            __syncthreads();
            if (mine)
                to[bins[warp * DIGITS + digit] + within] = key;
            __syncthreads();
        }
        unsigned *swapped = from;
        from = to;
        to = swapped;
    }
}

// Buckets that are too large for shared memory, or have too many nearly equal keys.
extern "C" __global__ void __launch_bounds__(THREADS)
    sort_rest(unsigned *other, const int *__restrict__ starts, unsigned *keys, const int *__restrict__ left, int n)
{
    for (int b = blockIdx.x; b < BUCKETS; b += gridDim.x)
        if (left[b])
            sort_long(other + starts[b], keys + starts[b], (b + 1 < BUCKETS ? starts[b + 1] : n) - starts[b]);
}
