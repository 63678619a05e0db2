// Keys are put in order of their leading bits within tiles of 16384, so that all blocks, which start together, sweep the
// sorted array from its start to its end: what one block reads, the others find in the L2 cache, and the array comes
// from memory a few times in all instead of a sector or two for each key. A table of where each group of values begins
// replaces the upper levels of the search; it holds about four elements a group, of which a load reads four.
#define THREADS 512
#define WARPS (THREADS / 32)
#define EACH 32
#define TILE (THREADS * EACH)
#define FULL 0xffffffffu
#define BIN_BITS 10
#define BINS (1 << BIN_BITS)
#define TOGETHER 4
#define PATIENCE 8

// The smallest and largest element, and how far a difference to the smallest is shifted to have only `bits` bits.
struct Range {
    int least, most;
    __device__ __forceinline__ Range(const int *__restrict__ sorted, int n)
        : least(__ldg(sorted)), most(__ldg(sorted + n - 1))
    {
    }
    __device__ __forceinline__ unsigned above(int key) const
    {
        return static_cast<unsigned>(min(max(key, least), most)) - static_cast<unsigned>(least);
    }
    __device__ __forceinline__ int shift(int bits) const
    {
        return max(32 - __clz(static_cast<unsigned>(most) - static_cast<unsigned>(least)) - bits, 0);
    }
};

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

// table[g]: the first element of group g or of a later one.
extern "C" __global__ void __launch_bounds__(256)
    index_groups(const int *__restrict__ sorted, int *__restrict__ table, int n, int bits)
{
    const Range range(sorted, n);
    const int shift = range.shift(bits), lane = threadIdx.x % 32;
    const int first = (blockIdx.x * 256 + threadIdx.x) * 4;
    int item[4];
    if (first + 4 <= n) {
        const int4 four = __ldg(reinterpret_cast<const int4 *>(sorted + first));
        item[0] = four.x, item[1] = four.y, item[2] = four.z, item[3] = four.w;
    } else {
#pragma unroll
        for (int e = 0; e < 4; e++)
            item[e] = first + e < n ? sorted[first + e] : range.most;
    }
    int before = __shfl_up_sync(FULL, item[3], 1);
    if (lane == 0 && first > 0 && first < n)
        before = sorted[first - 1];
    int next = first == 0 ? 0 : static_cast<int>(range.above(before) >> shift) + 1;
#pragma unroll
    for (int e = 0; e < 4; e++) {
        const int group = first + e < n ? range.above(item[e]) >> shift : -1;
        // Long gaps are filled by the whole warp.
        unsigned wide = __ballot_sync(FULL, group - next >= 32);
        while (wide) {
            const int from = __ffs(wide) - 1;
            wide &= wide - 1;
            const int start = __shfl_sync(FULL, next, from), end = __shfl_sync(FULL, group, from);
            const int place = __shfl_sync(FULL, first + e, from);
            for (int g = start + lane; g < end; g += 32)
                table[g] = place;
        }
        if (group - next >= 32)
            next = group;
        for (; next <= group; next++)
            table[next] = first + e;
        if (first + e == n - 1)
            table[group + 1] = n;
    }
}

// Four keys of a tile; zeros behind its end. The last time they are read, they need not stay in the cache.
template <bool WHOLE, bool LAST> __device__ __forceinline__ int4 load_four(const int *__restrict__ keys, int at, int count)
{
    if (WHOLE || at + 4 <= count) {
        const int4 *from = reinterpret_cast<const int4 *>(keys + at);
        return LAST ? __ldcs(from) : __ldg(from);
    }
    return make_int4(at < count ? keys[at] : 0, at + 1 < count ? keys[at + 1] : 0, at + 2 < count ? keys[at + 2] : 0, 0);
}

// Puts a tile in order of its bins and returns where each of a thread's keys is, two places a word. Keys are read twice,
// first to count them: the second time they are in the L2 cache, and take no registers until then. The last tile has
// places without a key, which go to a bin of their own behind the others.
template <bool WHOLE>
__device__ __forceinline__ void sort_tile(const int *__restrict__ keys, int count, const Range &range, int *staged,
                                          int *bins, unsigned (&rank)[EACH / 2])
{
    __shared__ int totals[WARPS];
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const int coarse = range.shift(BIN_BITS);
#pragma unroll
    for (int b = threadIdx.x; b < BINS; b += THREADS)
        bins[b] = 0;
    if (threadIdx.x == 0)
        bins[BINS] = 0;
    __syncthreads();
    const auto bin_of = [&](int key, int at) {
        return WHOLE || at < count ? static_cast<int>(range.above(key) >> coarse) : BINS;
    };
#pragma unroll
    for (int some = 0; some < EACH; some += 16) {
        int4 four[4];
#pragma unroll
        for (int q = 0; q < 4; q++)
            four[q] = load_four<WHOLE, false>(keys, ((some / 4 + q) * THREADS + threadIdx.x) * 4, count);
#pragma unroll
        for (int q = 0; q < 4; q++) {
            const int at = ((some / 4 + q) * THREADS + threadIdx.x) * 4, r = some / 2 + q * 2;
            rank[r] = atomicAdd(bins + bin_of(four[q].x, at), 1);
            rank[r] |= atomicAdd(bins + bin_of(four[q].y, at + 1), 1) << 16;
            rank[r + 1] = atomicAdd(bins + bin_of(four[q].z, at + 2), 1);
            rank[r + 1] |= atomicAdd(bins + bin_of(four[q].w, at + 3), 1) << 16;
        }
    }
    __syncthreads();
    int item[BINS / THREADS], running = 0;
#pragma unroll
    for (int j = 0; j < BINS / THREADS; j++) {
        const int own = bins[(warp * (BINS / THREADS) + j) * 32 + lane], upto = warp_inclusive(own, lane);
        item[j] = running + upto - own;
        running += __shfl_sync(FULL, upto, 31);
    }
    if (lane == 0)
        totals[warp] = running;
    __syncthreads();
    const int before = __reduce_add_sync(FULL, lane < warp ? totals[lane] : 0);
#pragma unroll
    for (int j = 0; j < BINS / THREADS; j++)
        bins[(warp * (BINS / THREADS) + j) * 32 + lane] = before + item[j];
    if (threadIdx.x == 0)
        bins[BINS] = count;
    __syncthreads();
#pragma unroll
    for (int some = 0; some < EACH; some += 16) {
        int4 four[4];
#pragma unroll
        for (int q = 0; q < 4; q++)
            four[q] = load_four<WHOLE, true>(keys, ((some / 4 + q) * THREADS + threadIdx.x) * 4, count);
#pragma unroll
        for (int q = 0; q < 4; q++) {
            const int at = ((some / 4 + q) * THREADS + threadIdx.x) * 4, r = some / 2 + q * 2;
            const unsigned x = bins[bin_of(four[q].x, at)] + (rank[r] & 0xffff);
            const unsigned y = bins[bin_of(four[q].y, at + 1)] + (rank[r] >> 16);
            const unsigned z = bins[bin_of(four[q].z, at + 2)] + (rank[r + 1] & 0xffff);
            const unsigned w = bins[bin_of(four[q].w, at + 3)] + (rank[r + 1] >> 16);
            staged[x] = four[q].x, staged[y] = four[q].y, staged[z] = four[q].z, staged[w] = four[q].w;
            rank[r] = x | y << 16, rank[r + 1] = z | w << 16;
        }
    }
    __syncthreads();
}

// Goes on where four elements are all below the key: a few more loads, then a binary search.
__device__ __forceinline__ int search_rest(const int *__restrict__ sorted, int low, int high, int key)
{
    while (low < high) {
        const int middle = low + (high - low) / 2;
        if (sorted[middle] < key)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

extern "C" __global__ void __launch_bounds__(THREADS, 2)
    lower_bound(const int *__restrict__ sorted, const int *__restrict__ table, const int *__restrict__ wanted,
                int *__restrict__ places, int n, int m, int bits)
{
    extern __shared__ __align__(16) int staged[];
    int *bins = staged + TILE;
    const int base = blockIdx.x * TILE, count = min(TILE, m - base);
    unsigned rank[EACH / 2];
    if (count == TILE)
        sort_tile<true>(wanted + base, count, Range(sorted, n), staged, bins, rank);
    else
        sort_tile<false>(wanted + base, count, Range(sorted, n), staged, bins, rank);
    // Answers take the places of their keys.
    {
        const Range range(sorted, n);
        const int fine = range.shift(bits);
#pragma unroll 1
        for (int first = threadIdx.x; first < count; first += TOGETHER * THREADS) {
            int key[TOGETHER], low[TOGETHER];
            bool open[TOGETHER];
#pragma unroll
            for (int k = 0; k < TOGETHER; k++) {
                const int at = first + k * THREADS;
                key[k] = at < count ? staged[at] : range.least;
                open[k] = key[k] > range.least && key[k] <= range.most;
                low[k] = key[k] > range.most ? n : 0;
                if (open[k])
                    low[k] = __ldg(table + (range.above(key[k]) >> fine)) & ~3;
            }
            // What lies before the group in the same four is below the key, what lies behind it is not.
            bool any = true;
#pragma unroll 1
            for (int round = 0; any && round < PATIENCE; round++) {
                int4 four[TOGETHER];
#pragma unroll
                for (int k = 0; k < TOGETHER; k++) {
                    four[k] = make_int4(key[k], key[k], key[k], key[k]);
                    if (open[k] && low[k] + 4 <= n)
                        four[k] = __ldg(reinterpret_cast<const int4 *>(sorted + low[k]));
                }
                any = false;
#pragma unroll
                for (int k = 0; k < TOGETHER; k++) {
                    const int below = (four[k].x < key[k]) + (four[k].y < key[k]) + (four[k].z < key[k]) +
                                      (four[k].w < key[k]);
                    open[k] = open[k] && (below == 4 || low[k] + 4 > n);
                    low[k] += below;
                    any = any || open[k];
                }
            }
#pragma unroll
            for (int k = 0; k < TOGETHER; k++) {
                const int at = first + k * THREADS;
                if (open[k])
                    low[k] = search_rest(sorted, low[k], __ldg(table + (range.above(key[k]) >> fine) + 1), key[k]);
                if (at < count)
                    staged[at] = low[k];
            }
        }
    }
    __syncthreads();
#pragma unroll
    for (int r = 0; r < EACH; r += 4) {
        const int at = (r / 4 * THREADS + threadIdx.x) * 4;
        if (at + 4 <= count) {
            __stcs(reinterpret_cast<int4 *>(places + base + at),
                   make_int4(staged[rank[r / 2] & 0xffff], staged[rank[r / 2] >> 16], staged[rank[r / 2 + 1] & 0xffff],
                             staged[rank[r / 2 + 1] >> 16]));
        } else {
#pragma unroll
            for (int e = 0; e < 4; e++)
                if (at + e < count)
                    places[base + at + e] = staged[rank[(r + e) / 2] >> e % 2 * 16 & 0xffff];
        }
    }
}
