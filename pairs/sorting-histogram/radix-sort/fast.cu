// Largest digit first: one pass sends each key to one of 2048 buckets, in any order within a bucket, so that a tile
// takes its room by atomics and waits for no other; a bucket then fits in shared memory and is sorted there. Buckets get
// equal rooms with an eighth to spare, so that nothing is counted beforehand, unless that proves too little. In shared
// memory one atomic a key gives its rank among its bin's, and the last step, within bins of about two, is a few rounds
// of odd-even transposition over all keys in registers.
#define THREADS 512
#define WARPS (THREADS / 32)
#define FULL 0xffffffffu
#define LOW_BITS 21
#define BUCKETS 2048
#define EACH 32
#define TILE (THREADS * EACH)
#define SKIP (-2147483647 - 1)
#define HELD 36
#define CAPACITY (THREADS * HELD)
#define BIN_BITS 13
#define BINS (1 << BIN_BITS)
#define CROWD 64
#define LINE 38
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

// Replaces COUNT counts in shared memory by the sums of those before each, and returns the largest count. `totals` has
// two numbers a warp.
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
    largest = __reduce_max_sync(FULL, largest);
    if (lane == 0) {
        totals[warp] = running;
        totals[WARPS + warp] = largest;
    }
    __syncthreads();
    const int before = __reduce_add_sync(FULL, lane < warp ? totals[lane] : 0);
#pragma unroll
    for (int r = 0; r < ROUNDS; r++) {
        int4 sum;
        sum.x = before + start[r];
        sum.y = sum.x + item[r].x;
        sum.z = sum.y + item[r].y;
        sum.w = sum.z + item[r].z;
        own[r * 32] = sum;
    }
    largest = __reduce_max_sync(FULL, lane < WARPS ? totals[WARPS + lane] : 0);
    __syncthreads();
    return largest;
}

// Four keys of a tile; zeros behind its end. The last time they are read, they need not stay in the cache.
template <bool WHOLE, bool LAST>
__device__ __forceinline__ uint4 load_four(const unsigned *__restrict__ keys, int at, int count)
{
    if (WHOLE || at + 4 <= count) {
        const uint4 *from = reinterpret_cast<const uint4 *>(keys + at);
        return LAST ? __ldcs(from) : __ldg(from);
    }
    return make_uint4(at < count ? keys[at] : 0, at + 1 < count ? keys[at + 1] : 0, at + 2 < count ? keys[at + 2] : 0,
                      0);
}

// Puts a tile in order of its buckets in shared memory and writes it in runs. Keys are read twice, first to count them:
// the second time they are in the L2 cache, and take no registers until then. The last tile has places without a key,
// which go to a bin of their own behind the others.
template <bool WHOLE>
__device__ __forceinline__ void partition_tile(const unsigned *__restrict__ keys, int count, unsigned *__restrict__ to,
                                               int *__restrict__ taken, const int *__restrict__ bases,
                                               int *__restrict__ overflow, int room, bool dense, unsigned *staged)
{
    int *bins = reinterpret_cast<int *>(staged + TILE), *shift_by = bins + BUCKETS + 4;
    __shared__ int totals[2 * WARPS];
#pragma unroll
    for (int b = threadIdx.x; b < BUCKETS; b += THREADS)
        bins[b] = 0;
    if (threadIdx.x == 0)
        bins[BUCKETS] = 0;
    __syncthreads();
    const auto bin_of = [&](unsigned key, int at) {
        return WHOLE || at < count ? static_cast<int>(key >> LOW_BITS) : BUCKETS;
    };
    unsigned rank[EACH / 2];
#pragma unroll
    for (int some = 0; some < EACH / 4; some += 4) {
        uint4 four[4];
#pragma unroll
        for (int q = 0; q < 4; q++)
            four[q] = load_four<WHOLE, false>(keys, ((some + q) * THREADS + threadIdx.x) * 4, count);
#pragma unroll
        for (int q = 0; q < 4; q++) {
            const int at = ((some + q) * THREADS + threadIdx.x) * 4, r = (some + q) * 2;
            rank[r] = atomicAdd(bins + bin_of(four[q].x, at), 1);
            rank[r] |= atomicAdd(bins + bin_of(four[q].y, at + 1), 1) << 16;
            rank[r + 1] = atomicAdd(bins + bin_of(four[q].z, at + 2), 1);
            rank[r + 1] |= atomicAdd(bins + bin_of(four[q].w, at + 3), 1) << 16;
        }
    }
    __syncthreads();
#pragma unroll
    for (int b = threadIdx.x; b < BUCKETS; b += THREADS) {
        const int own = bins[b], before = own ? atomicAdd(taken + b, own) : 0;
        int start = SKIP;
        if (dense)
            start = bases[b] + before;
        else if (before + own <= room)
            start = b * room + before;
        else
            *overflow = 1;
        shift_by[b] = start;
    }
    block_exclusive<BUCKETS>(bins, totals);
    if (threadIdx.x == 0)
        bins[BUCKETS] = count;
#pragma unroll
    for (int b = threadIdx.x; b < BUCKETS; b += THREADS)
        if (shift_by[b] != SKIP)
            shift_by[b] -= bins[b];
    __syncthreads();
#pragma unroll
    for (int some = 0; some < EACH / 4; some += 4) {
        uint4 four[4];
#pragma unroll
        for (int q = 0; q < 4; q++)
            four[q] = load_four<WHOLE, true>(keys, ((some + q) * THREADS + threadIdx.x) * 4, count);
#pragma unroll
        for (int q = 0; q < 4; q++) {
            const int at = ((some + q) * THREADS + threadIdx.x) * 4, r = (some + q) * 2;
            staged[bins[bin_of(four[q].x, at)] + (rank[r] & 0xffff)] = four[q].x;
            staged[bins[bin_of(four[q].y, at + 1)] + (rank[r] >> 16)] = four[q].y;
            staged[bins[bin_of(four[q].z, at + 2)] + (rank[r + 1] & 0xffff)] = four[q].z;
            staged[bins[bin_of(four[q].w, at + 3)] + (rank[r + 1] >> 16)] = four[q].w;
        }
    }
    __syncthreads();
#pragma unroll 8
    for (int r = 0; r < EACH; r++) {
        const int at = r * THREADS + threadIdx.x;
        if (WHOLE || at < count) {
            const unsigned item = staged[at];
            const int shift = shift_by[item >> LOW_BITS];
            if (shift != SKIP)
                to[shift + at] = item;
        }
    }
    __syncthreads();
}

// The first time each bucket has `room` keys' room. The second time (dense), only if that was too little, buckets lie
// side by side.
extern "C" __global__ void __launch_bounds__(THREADS, 2)
    partition(const unsigned *__restrict__ keys, unsigned *__restrict__ to, int *__restrict__ taken,
              const int *__restrict__ bases, int *__restrict__ overflow, int room, int dense, int n)
{
    extern __shared__ __align__(16) unsigned staged[];
    if (dense && *overflow == 0)
        return;
    for (int base = blockIdx.x * TILE; base < n; base += gridDim.x * TILE) {
        if (base + TILE <= n)
            partition_tile<true>(keys + base, TILE, to, taken, bases, overflow, room, dense, staged);
        else
            partition_tile<false>(keys + base, n - base, to, taken, bases, overflow, room, dense, staged);
    }
}

// Only if a bucket had too little room.
extern "C" __global__ void __launch_bounds__(THREADS)
    count_digits(const unsigned *__restrict__ keys, int *__restrict__ counts, const int *__restrict__ overflow, int n)
{
    __shared__ int bins[BUCKETS];
    if (*overflow == 0)
        return;
    for (int b = threadIdx.x; b < BUCKETS; b += THREADS)
        bins[b] = 0;
    __syncthreads();
    const int thread = blockIdx.x * THREADS + threadIdx.x, threads = gridDim.x * THREADS;
#pragma unroll 4
    for (int i = thread; i < n; i += threads)
        atomicAdd(bins + (keys[i] >> LOW_BITS), 1);
    __syncthreads();
    for (int b = threadIdx.x; b < BUCKETS; b += THREADS)
        if (bins[b])
            atomicAdd(counts + b, bins[b]);
}

// One block: how large each bucket is, where it lies (at a multiple of four keys) and where it goes.
extern "C" __global__ void __launch_bounds__(THREADS)
    scan(const int *__restrict__ counts, int *__restrict__ taken, const int *__restrict__ overflow,
         int *__restrict__ sizes, int *__restrict__ bases, int *__restrict__ starts, int room)
{
    __shared__ __align__(16) int sums[BUCKETS], aligned[BUCKETS];
    __shared__ int totals[2 * WARPS];
    const bool dense = *overflow;
    for (int b = threadIdx.x; b < BUCKETS; b += THREADS) {
        const int size = dense ? counts[b] : taken[b];
        sizes[b] = sums[b] = size;
        aligned[b] = (size + 3) / 4 * 4;
        if (dense)
            taken[b] = 0;
    }
    __syncthreads();
    block_exclusive<BUCKETS>(sums, totals);
    block_exclusive<BUCKETS>(aligned, totals);
    for (int b = threadIdx.x; b < BUCKETS; b += THREADS) {
        starts[b] = sums[b];
        bases[b] = dense ? aligned[b] : b * room;
    }
}

__device__ __forceinline__ int bin_of(unsigned key)
{
    return key >> (LOW_BITS - BIN_BITS) & (BINS - 1);
}

__device__ __forceinline__ void exchange(unsigned &low, unsigned &high)
{
    const unsigned least = min(low, high);
    high = max(low, high);
    low = least;
}

// A block a bucket: keys go to 8192 bins of about two. Then each warp has 512 whole bins in its registers, a lane LINE
// keys in a row, and as many rounds of odd-even transposition as the fullest bin has keys put all bins in order.
extern "C" __global__ void __launch_bounds__(THREADS, 2)
    sort_buckets(const unsigned *__restrict__ other, const int *__restrict__ sizes, const int *__restrict__ bases,
                 const int *__restrict__ starts, unsigned *__restrict__ keys, int *__restrict__ left)
{
    extern __shared__ __align__(16) unsigned staged[];
    int *bins = reinterpret_cast<int *>(staged + CAPACITY);
    __shared__ int totals[2 * WARPS];
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const int size = sizes[blockIdx.x];
    const uint4 *from = reinterpret_cast<const uint4 *>(other + bases[blockIdx.x]);
    unsigned *to = keys + starts[blockIdx.x];
    if (threadIdx.x == 0)
        left[blockIdx.x] = size > CAPACITY;
    if (size == 0 || size > CAPACITY)
        return;
    // All of the bucket is on its way while its first keys are waited for.
#pragma unroll
    for (int q = 3; q < HELD / 4; q++)
        if ((q * THREADS + threadIdx.x) * 4 < size)
            asm volatile("prefetch.global.L2 [%0];" ::"l"(from + q * THREADS + threadIdx.x));
#pragma unroll
    for (int b = threadIdx.x; b < BINS / 4; b += THREADS)
        reinterpret_cast<int4 *>(bins)[b] = make_int4(0, 0, 0, 0);
    if (threadIdx.x == 0)
        bins[BINS] = 0;
    __syncthreads();
    // What lies behind the bucket's end in its last four goes to a bin of its own.
    unsigned rank[HELD / 2];
#pragma unroll
    for (int some = 0; some < HELD / 4; some += 3) {
        uint4 four[3];
#pragma unroll
        for (int q = 0; q < 3; q++) {
            const int at = ((some + q) * THREADS + threadIdx.x) * 4;
            four[q] = at < size ? __ldg(from + (some + q) * THREADS + threadIdx.x) : make_uint4(0, 0, 0, 0);
        }
#pragma unroll
        for (int q = 0; q < 3; q++) {
            const int at = ((some + q) * THREADS + threadIdx.x) * 4, r = (some + q) * 2;
            if (at + 4 <= size) {
                rank[r] = atomicAdd(bins + bin_of(four[q].x), 1);
                rank[r] |= atomicAdd(bins + bin_of(four[q].y), 1) << 16;
                rank[r + 1] = atomicAdd(bins + bin_of(four[q].z), 1);
                rank[r + 1] |= atomicAdd(bins + bin_of(four[q].w), 1) << 16;
            } else if (at < size) {
                rank[r] = atomicAdd(bins + bin_of(four[q].x), 1);
                rank[r] |= atomicAdd(bins + (at + 1 < size ? bin_of(four[q].y) : BINS), 1) << 16;
                rank[r + 1] = atomicAdd(bins + (at + 2 < size ? bin_of(four[q].z) : BINS), 1);
            }
        }
    }
    __syncthreads();
    const int largest = block_exclusive<BINS>(bins, totals);
    // All warps look at the shares of all, so that they agree.
    const int every = BINS / WARPS;
    const int share = lane < WARPS ? (lane < WARPS - 1 ? bins[(lane + 1) * every] : size) - bins[lane * every] : 0;
    if (largest > CROWD || __any_sync(FULL, share > 32 * LINE)) {
        if (threadIdx.x == 0)
            left[blockIdx.x] = 1;
        return;
    }
#pragma unroll
    for (int some = 0; some < HELD / 4; some += 3) {
        uint4 four[3];
#pragma unroll
        for (int q = 0; q < 3; q++) {
            const int at = ((some + q) * THREADS + threadIdx.x) * 4;
            four[q] = at < size ? __ldcs(from + (some + q) * THREADS + threadIdx.x) : make_uint4(0, 0, 0, 0);
        }
#pragma unroll
        for (int q = 0; q < 3; q++) {
            const int at = ((some + q) * THREADS + threadIdx.x) * 4, r = (some + q) * 2;
            if (at + 4 <= size) {
                staged[bins[bin_of(four[q].x)] + (rank[r] & 0xffff)] = four[q].x;
                staged[bins[bin_of(four[q].y)] + (rank[r] >> 16)] = four[q].y;
                staged[bins[bin_of(four[q].z)] + (rank[r + 1] & 0xffff)] = four[q].z;
                staged[bins[bin_of(four[q].w)] + (rank[r + 1] >> 16)] = four[q].w;
            } else if (at < size) {
                staged[bins[bin_of(four[q].x)] + (rank[r] & 0xffff)] = four[q].x;
                if (at + 1 < size)
                    staged[bins[bin_of(four[q].y)] + (rank[r] >> 16)] = four[q].y;
                if (at + 2 < size)
                    staged[bins[bin_of(four[q].z)] + (rank[r + 1] & 0xffff)] = four[q].z;
            }
        }
    }
    __syncthreads();
    const int begin = bins[warp * every], end = warp < WARPS - 1 ? bins[(warp + 1) * every] : size;
    unsigned *line = staged + begin + lane * LINE;
    const int count = end - begin - lane * LINE;
    unsigned item[LINE];
#pragma unroll
    for (int i = 0; i < LINE; i++)
        item[i] = i < count ? line[i] : FULL;
#pragma unroll 1
    for (int round = 0; round < largest; round += 2) {
#pragma unroll
        for (int i = 0; i < LINE; i += 2)
            exchange(item[i], item[i + 1]);
        const unsigned before = __shfl_up_sync(FULL, item[LINE - 1], 1), after = __shfl_down_sync(FULL, item[0], 1);
#pragma unroll
        for (int i = 1; i < LINE - 1; i += 2)
            exchange(item[i], item[i + 1]);
        item[0] = lane > 0 ? max(item[0], before) : item[0];
        item[LINE - 1] = lane < 31 ? min(item[LINE - 1], after) : item[LINE - 1];
    }
#pragma unroll
    for (int i = 0; i < LINE; i++)
        if (i < count)
            line[i] = item[i];
    __syncwarp();
#pragma unroll 8
    for (int at = begin + lane; at < end; at += 32)
        to[at] = staged[at];
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
    sort_rest(unsigned *other, const int *__restrict__ sizes, const int *__restrict__ bases,
              const int *__restrict__ starts, unsigned *keys, const int *__restrict__ left)
{
    for (int b = blockIdx.x; b < BUCKETS; b += gridDim.x)
        if (left[b])
            sort_long(other + bases[b], keys + starts[b], sizes[b]);
}
