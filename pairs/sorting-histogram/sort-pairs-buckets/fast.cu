// Largest digit first: one stable pass sends each pair to one of 2048 buckets, its room known from counts a tile; a
// bucket then fits in shared memory and is sorted there. A word holds a key's low bits above its place in the bucket, so
// that ties keep their order; one atomic a key sends words to bins of about two, and a few rounds of odd-even transposition
// in registers put them in order. Values wait in shared memory and are looked up by place.
#define THREADS 1024
#define WARPS (THREADS / 32)
#define FULL 0xffffffffu
#define LOW_BITS 21
#define BUCKETS 2048
#define EACH 16
#define TILE (THREADS * EACH)
#define SORTERS 512
#define HELD 18
#define CAPACITY (SORTERS * HELD)
#define BIN_BITS 12
#define BINS (1 << BIN_BITS)
#define CROWD 64
#define LINE 22
#define PLACE_BITS 14
#define SHARE_BITS 17 // of keys in one warp's bins: LOW_BITS - log2(SORTERS / 32)
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
template <int COUNT, int WORKERS> __device__ __forceinline__ int block_exclusive(int *counts, int *totals)
{
    constexpr int ROUNDS = COUNT < WORKERS * 4 ? 1 : COUNT / (WORKERS * 4), BUSY = COUNT / (128 * ROUNDS);
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    int4 *own = reinterpret_cast<int4 *>(counts) + warp * (32 * ROUNDS) + lane;
    int4 item[ROUNDS];
    int start[ROUNDS], running = 0, largest = 0;
#pragma unroll
    for (int r = 0; r < ROUNDS; r++) {
        item[r] = warp < BUSY ? own[r * 32] : make_int4(0, 0, 0, 0);
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
        if (warp < BUSY)
            own[r * 32] = sum;
    }
    return largest;
}

// A row of counts for each tile.
extern "C" __global__ void __launch_bounds__(THREADS)
    count_digits(const unsigned *__restrict__ keys, int *__restrict__ counts, int n)
{
    __shared__ int bins[BUCKETS];
#pragma unroll
    for (int b = threadIdx.x; b < BUCKETS; b += THREADS)
        bins[b] = 0;
    __syncthreads();
    const int base = blockIdx.x * TILE;
#pragma unroll
    for (int r = 0; r < EACH; r += 4) {
        const int at = base + r * THREADS + threadIdx.x * 4;
        if (at + 3 < n) {
            const uint4 key = *reinterpret_cast<const uint4 *>(keys + at);
            atomicAdd(bins + (key.x >> LOW_BITS), 1);
            atomicAdd(bins + (key.y >> LOW_BITS), 1);
            atomicAdd(bins + (key.z >> LOW_BITS), 1);
            atomicAdd(bins + (key.w >> LOW_BITS), 1);
        } else {
            for (int k = at; k < n; k++)
                atomicAdd(bins + (keys[k] >> LOW_BITS), 1);
        }
    }
    __syncthreads();
#pragma unroll
    for (int b = threadIdx.x; b < BUCKETS; b += THREADS)
        counts[blockIdx.x * BUCKETS + b] = bins[b];
}

// Down the tiles, for 32 buckets a block: each warp adds up a stretch of tiles, then goes over it again.
extern "C" __global__ void __launch_bounds__(1024)
    add_tiles(int *__restrict__ counts, int *__restrict__ sizes, int tiles)
{
    __shared__ int sums[32][32];
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const int each = (tiles + 31) / 32, begin = min(tiles, warp * each), end = min(tiles, begin + each);
    int *own = counts + blockIdx.x * 32 + lane;
    int sum = 0;
#pragma unroll 16
    for (int t = begin; t < end; t++)
        sum += own[t * BUCKETS];
    sums[warp][lane] = sum;
    __syncthreads();
    int before = 0;
    for (int w = 0; w < warp; w++)
        before += sums[w][lane];
    if (warp == 31)
        sizes[blockIdx.x * 32 + lane] = before + sum;
#pragma unroll 16
    for (int t = begin; t < end; t++) {
        const int count = own[t * BUCKETS];
        own[t * BUCKETS] = before;
        before += count;
    }
}

// One block: where each bucket begins.
extern "C" __global__ void __launch_bounds__(SORTERS) scan(const int *__restrict__ sizes, int *__restrict__ starts)
{
    __shared__ __align__(16) int sums[BUCKETS];
    __shared__ int totals[SORTERS / 32];
    for (int b = threadIdx.x; b < BUCKETS; b += SORTERS)
        sums[b] = sizes[b];
    __syncthreads();
    block_exclusive<BUCKETS, SORTERS>(sums, totals);
    __syncthreads();
    for (int b = threadIdx.x; b < BUCKETS; b += SORTERS)
        starts[b] = sums[b];
}

__device__ __forceinline__ unsigned same_bucket(int bucket)
{
    unsigned peers = FULL;
#pragma unroll
    for (int bit = 0; bit < 11; bit++) {
        const bool set = bucket >> bit & 1;
        const unsigned vote = __ballot_sync(FULL, set);
        peers &= set ? vote : ~vote;
    }
    return peers;
}

// A tile is put in order of its buckets in shared memory, keys first, then values, and written in runs.
extern "C" __global__ void __launch_bounds__(THREADS, 1)
    partition(const unsigned *__restrict__ keys, const unsigned *__restrict__ values, const int *__restrict__ starts,
              const int *__restrict__ offsets, unsigned *__restrict__ to_keys, unsigned *__restrict__ to_values, int n)
{
    extern __shared__ __align__(16) unsigned staged[];
    // Counts of each warp, two buckets a word; then the sums of the tile.
    unsigned *pairs = staged + TILE;
    unsigned short *bins = reinterpret_cast<unsigned short *>(pairs);
    int *sums = reinterpret_cast<int *>(pairs + WARPS * BUCKETS / 2);
    __shared__ int totals[WARPS];
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const int base = blockIdx.x * TILE, count = min(TILE, n - base);
    const int first = warp * (32 * EACH) + lane;
    unsigned item[EACH], rank[EACH / 2];
#pragma unroll
    for (int r = 0; r < EACH; r++)
        item[r] = first + r * 32 < count ? __ldcs(keys + base + first + r * 32) : 0xffffffffu;
    // Values are on their way to the L2 cache while keys are put in order.
    for (int at = threadIdx.x * 8; at < count; at += THREADS * 8)
        asm volatile("prefetch.global.L2 [%0];" ::"l"(values + base + at));
#pragma unroll
    for (int i = threadIdx.x; i < WARPS * BUCKETS / 8; i += THREADS)
        reinterpret_cast<uint4 *>(pairs)[i] = make_uint4(0, 0, 0, 0);
    __syncthreads();
#pragma unroll
    for (int r = 0; r < EACH; r++) {
        const int bucket = item[r] >> LOW_BITS;
        const unsigned peers = same_bucket(bucket);
        unsigned short *own = bins + warp * BUCKETS + bucket;
        const int before = *own, within = __popc(peers & ((1u << lane) - 1));
        __syncwarp();
        if (within == 0)
            *own = static_cast<unsigned short>(before + __popc(peers));
        __syncwarp();
        rank[r / 2] = r % 2 ? rank[r / 2] | (before + within) << 16 : before + within;
    }
    __syncthreads();
#pragma unroll
    for (int i = threadIdx.x; i < BUCKETS / 2; i += THREADS) {
        unsigned total = 0;
#pragma unroll
        for (int w = 0; w < WARPS; w++) {
            const unsigned own = pairs[w * (BUCKETS / 2) + i];
            pairs[w * (BUCKETS / 2) + i] = total;
            total += own;
        }
        reinterpret_cast<int2 *>(sums)[i] = make_int2(total & 0xffff, total >> 16);
    }
    __syncthreads();
    block_exclusive<BUCKETS, THREADS>(sums, totals);
    __syncthreads();
#pragma unroll
    for (int i = threadIdx.x; i < BUCKETS / 2; i += THREADS) {
        const int2 sum = reinterpret_cast<const int2 *>(sums)[i];
        const int2 start = reinterpret_cast<const int2 *>(starts)[i];
        const int2 offset = reinterpret_cast<const int2 *>(offsets + blockIdx.x * BUCKETS)[i];
        const unsigned both = sum.x | sum.y << 16;
#pragma unroll
        for (int w = 0; w < WARPS; w++)
            pairs[w * (BUCKETS / 2) + i] += both;
        reinterpret_cast<int2 *>(sums)[i] = make_int2(start.x + offset.x - sum.x, start.y + offset.y - sum.y);
    }
    __syncthreads();
#pragma unroll
    for (int r = 0; r < EACH; r++) {
        const int at = (rank[r / 2] >> r % 2 * 16 & 0xffff) + bins[warp * BUCKETS + (item[r] >> LOW_BITS)];
        staged[at] = item[r];
        rank[r / 2] = r % 2 ? (rank[r / 2] & 0xffff) | at << 16 : (rank[r / 2] & 0xffff0000u) | at;
    }
    __syncthreads();
    int place[EACH];
#pragma unroll
    for (int r = 0; r < EACH; r++) {
        const int at = r * THREADS + threadIdx.x;
        if (at < count) {
            const unsigned key = staged[at];
            place[r] = sums[key >> LOW_BITS] + at;
            to_keys[place[r]] = key;
        }
    }
    __syncthreads();
#pragma unroll
    for (int r = 0; r < EACH; r++)
        if (first + r * 32 < count)
            staged[rank[r / 2] >> r % 2 * 16 & 0xffff] = __ldcs(values + base + first + r * 32);
    __syncthreads();
#pragma unroll
    for (int r = 0; r < EACH; r++) {
        const int at = r * THREADS + threadIdx.x;
        if (at < count)
            to_values[place[r]] = staged[at];
    }
}

__device__ __forceinline__ int bin_of(unsigned key)
{
    return key >> (LOW_BITS - BIN_BITS) & (BINS - 1);
}

__device__ __forceinline__ void copy_async(unsigned *to, const unsigned *from)
{
    const unsigned address = static_cast<unsigned>(__cvta_generic_to_shared(to));
    asm volatile("cp.async.ca.shared.global [%0], [%1], 4;" ::"r"(address), "l"(from) : "memory");
}

__device__ __forceinline__ void exchange(unsigned &low, unsigned &high)
{
    const unsigned least = min(low, high);
    high = max(low, high);
    low = least;
}

// A block a bucket: words go to 4096 bins of about two. Then each warp has 256 whole bins in its registers, a lane LINE
// words in a row, and as many rounds of odd-even transposition as the fullest bin has words put all bins in order.
extern "C" __global__ void __launch_bounds__(SORTERS, 2)
    sort_buckets(const unsigned *__restrict__ other_keys, const unsigned *__restrict__ other_values,
                 const int *__restrict__ starts, unsigned *__restrict__ keys, unsigned *__restrict__ values,
                 int *__restrict__ left, int n)
{
    extern __shared__ __align__(16) unsigned staged[];
    unsigned *staged_value = staged + CAPACITY;
    int *bins = reinterpret_cast<int *>(staged_value + CAPACITY);
    __shared__ int totals[SORTERS / 32], fullest[SORTERS / 32];
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const int start = starts[blockIdx.x];
    const int size = (blockIdx.x + 1 < BUCKETS ? starts[blockIdx.x + 1] : n) - start;
    if (threadIdx.x == 0)
        left[blockIdx.x] = size > CAPACITY;
    if (size == 0 || size > CAPACITY)
        return;
    unsigned key[HELD], rank[HELD / 2];
#pragma unroll
    for (int r = 0; r < HELD; r++) {
        const int at = r * SORTERS + threadIdx.x;
        key[r] = at < size ? __ldcs(other_keys + start + at) : 0;
    }
#pragma unroll
    for (int r = 0; r < HELD; r++) {
        const int at = r * SORTERS + threadIdx.x;
        if (at < size)
            copy_async(staged_value + at, other_values + start + at);
    }
#pragma unroll
    for (int b = threadIdx.x; b < BINS / 4; b += SORTERS)
        reinterpret_cast<int4 *>(bins)[b] = make_int4(0, 0, 0, 0);
    __syncthreads();
#pragma unroll
    for (int r = 0; r < HELD; r++) {
        int own = 0;
        if (r * SORTERS + threadIdx.x < size)
            own = atomicAdd(bins + bin_of(key[r]), 1);
        rank[r / 2] = r % 2 ? rank[r / 2] | own << 16 : own;
    }
    __syncthreads();
    const int full = __reduce_max_sync(FULL, block_exclusive<BINS, SORTERS>(bins, totals));
    if (lane == 0)
        fullest[warp] = full;
    __syncthreads();
    // All warps look at what those of all say, so that they agree.
    const int every = BINS / (SORTERS / 32);
    const int largest = __reduce_max_sync(FULL, lane < SORTERS / 32 ? fullest[lane] : 0);
    const int share =
        lane < SORTERS / 32 ? (lane < SORTERS / 32 - 1 ? bins[(lane + 1) * every] : size) - bins[lane * every] : 0;
    if (largest > CROWD || __any_sync(FULL, share > 32 * LINE)) {
        asm volatile("cp.async.wait_all;" ::: "memory");
        if (threadIdx.x == 0)
            left[blockIdx.x] = 1;
        return;
    }
#pragma unroll
    for (int r = 0; r < HELD; r++) {
        const int at = r * SORTERS + threadIdx.x;
        if (at < size)
            staged[bins[bin_of(key[r])] + (rank[r / 2] >> r % 2 * 16 & 0xffff)] =
                (key[r] & ((1 << SHARE_BITS) - 1)) << PLACE_BITS | at;
    }
    asm volatile("cp.async.wait_all;" ::: "memory");
    __syncthreads();
    const int begin = bins[warp * every], end = warp < SORTERS / 32 - 1 ? bins[(warp + 1) * every] : size;
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
    const unsigned high = blockIdx.x << LOW_BITS | warp << SHARE_BITS;
#pragma unroll 4
    for (int at = begin + lane; at < end; at += 32) {
        const unsigned own = staged[at];
        keys[start + at] = high | own >> PLACE_BITS;
        values[start + at] = staged_value[own & ((1 << PLACE_BITS) - 1)];
    }
}

// Three stable passes of seven bits, by one block, that end in the second pair of arrays.
__device__ __forceinline__ void sort_long(unsigned *keys, unsigned *values, unsigned *to_keys, unsigned *to_values,
                                          int size)
{
    __shared__ int bins[SORTERS / 32 * DIGITS], first[DIGITS];
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    for (int shift = 0; shift < LOW_BITS; shift += 7) {
        if (threadIdx.x < DIGITS)
            first[threadIdx.x] = 0;
        __syncthreads();
        for (int i = threadIdx.x; i < size; i += SORTERS)
            atomicAdd(first + (keys[i] >> shift & (DIGITS - 1)), 1);
        __syncthreads();
        if (warp == 0) {
            int before = 0;
            for (int d = lane; d < DIGITS; d += 32) {
                const int own = first[d], upto = warp_inclusive(own, lane);
                first[d] = before + upto - own;
                before += __shfl_sync(FULL, upto, 31);
            }
        }
        for (int base = 0; base < size; base += SORTERS) {
            for (int i = threadIdx.x; i < SORTERS / 32 * DIGITS; i += SORTERS)
                bins[i] = 0;
            __syncthreads();
            const bool mine = base + static_cast<int>(threadIdx.x) < size;
            const unsigned key = mine ? keys[base + threadIdx.x] : 0, value = mine ? values[base + threadIdx.x] : 0;
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
                for (int w = 0; w < SORTERS / 32; w++) {
                    const int own = bins[w * DIGITS + threadIdx.x];
                    bins[w * DIGITS + threadIdx.x] = before;
                    before += own;
                }
                first[threadIdx.x] = before;
            }
            __syncthreads();
            if (mine) {
                to_keys[bins[warp * DIGITS + digit] + within] = key;
                to_values[bins[warp * DIGITS + digit] + within] = value;
            }
            __syncthreads();
        }
        unsigned *swapped = keys;
        keys = to_keys;
        to_keys = swapped;
        swapped = values;
        values = to_values;
        to_values = swapped;
    }
}

// Buckets that are too large for shared memory, or have too many nearly equal keys.
extern "C" __global__ void __launch_bounds__(SORTERS)
    sort_rest(unsigned *other_keys, unsigned *other_values, const int *__restrict__ starts, unsigned *keys,
              unsigned *values, const int *__restrict__ left, int n)
{
    for (int b = blockIdx.x; b < BUCKETS; b += gridDim.x)
        if (left[b])
            sort_long(other_keys + starts[b], other_values + starts[b], keys + starts[b], values + starts[b],
                      (b + 1 < BUCKETS ? starts[b + 1] : n) - starts[b]);
}
