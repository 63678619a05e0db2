// Keys are put in order of their hash's leading bits within tiles in shared memory, so that all blocks, which start
// together, sweep the table from its start to its end: what one block reads, the others find in the L2 cache, and the
// table comes from memory once for millions of probes instead of a sector for each. The build sweeps likewise. A bucket
// is two slots of eight bytes, one load; half of all slots stay empty.
#define THREADS 512
#define WARPS (THREADS / 32)
#define FULL 0xffffffffu
#define BIN_BITS 10
#define BINS (1 << BIN_BITS)
#define BUILDS 16
#define PROBES 32
#define TOGETHER 4
#define EMPTY 0xffffffffffffffffull

typedef unsigned long long entry;

__device__ __forceinline__ unsigned hash_of(int key)
{
    return static_cast<unsigned>(key) * 2654435761u;
}

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

// Four keys of a tile; zeros behind its end. The last time they are read, they need not stay in the cache.
template <bool WHOLE, bool LAST> __device__ __forceinline__ int4 load_four(const int *__restrict__ keys, int at, int count)
{
    if (WHOLE || at + 4 <= count) {
        const int4 *from = reinterpret_cast<const int4 *>(keys + at);
        return LAST ? __ldcs(from) : __ldg(from);
    }
    return make_int4(at < count ? keys[at] : 0, at + 1 < count ? keys[at + 1] : 0, at + 2 < count ? keys[at + 2] : 0, 0);
}

// Calls put(to, key, at) for the keys of a tile, `to` in order of their bins, and returns where each of a thread's keys
// is, two places a word. Keys are read twice, first to count them: the second time they are in the L2 cache, and take no
// registers until then. The last tile has places without a key, which go to a bin of their own behind the others.
template <bool WHOLE, int EACH, class Put>
__device__ __forceinline__ void sort_tile(const int *__restrict__ keys, int count, int *bins, unsigned (&rank)[EACH / 2],
                                          Put put)
{
    constexpr int BATCH = 4;
    __shared__ int totals[WARPS];
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
#pragma unroll
    for (int b = threadIdx.x; b < BINS; b += THREADS)
        bins[b] = 0;
    if (threadIdx.x == 0)
        bins[BINS] = 0;
    __syncthreads();
    const auto bin_of = [&](int key, int at) {
        return WHOLE || at < count ? static_cast<int>(hash_of(key) >> (32 - BIN_BITS)) : BINS;
    };
#pragma unroll
    for (int some = 0; some < EACH / 4; some += BATCH) {
        int4 four[BATCH];
#pragma unroll
        for (int q = 0; q < BATCH && some + q < EACH / 4; q++)
            four[q] = load_four<WHOLE, false>(keys, ((some + q) * THREADS + threadIdx.x) * 4, count);
#pragma unroll
        for (int q = 0; q < BATCH && some + q < EACH / 4; q++) {
            const int at = ((some + q) * THREADS + threadIdx.x) * 4, r = (some + q) * 2;
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
    for (int some = 0; some < EACH / 4; some += BATCH) {
        int4 four[BATCH];
#pragma unroll
        for (int q = 0; q < BATCH && some + q < EACH / 4; q++)
            four[q] = load_four<WHOLE, true>(keys, ((some + q) * THREADS + threadIdx.x) * 4, count);
#pragma unroll
        for (int q = 0; q < BATCH && some + q < EACH / 4; q++) {
            const int at = ((some + q) * THREADS + threadIdx.x) * 4, r = (some + q) * 2;
            const unsigned x = bins[bin_of(four[q].x, at)] + (rank[r] & 0xffff);
            const unsigned y = bins[bin_of(four[q].y, at + 1)] + (rank[r] >> 16);
            const unsigned z = bins[bin_of(four[q].z, at + 2)] + (rank[r + 1] & 0xffff);
            const unsigned w = bins[bin_of(four[q].w, at + 3)] + (rank[r + 1] >> 16);
            put(x, four[q].x, at), put(y, four[q].y, at + 1), put(z, four[q].z, at + 2), put(w, four[q].w, at + 3);
            rank[r] = x | y << 16, rank[r + 1] = z | w << 16;
        }
    }
    __syncthreads();
}

extern "C" __global__ void __launch_bounds__(THREADS, 2)
    build(const int *__restrict__ keys, const int *__restrict__ payload, entry *__restrict__ table, int n, int bits)
{
    extern __shared__ __align__(16) entry rows[];
    constexpr int TILE = THREADS * BUILDS;
    int *bins = reinterpret_cast<int *>(rows + TILE);
    const int base = blockIdx.x * TILE, count = min(TILE, n - base);
    unsigned rank[BUILDS / 2];
    const auto put = [&](unsigned to, int key, int at) {
        if (at < count)
            rows[to] = static_cast<entry>(static_cast<unsigned>(key)) << 32 | static_cast<unsigned>(payload[base + at]);
    };
    if (count == TILE)
        sort_tile<true, BUILDS>(keys + base, count, bins, rank, put);
    else
        sort_tile<false, BUILDS>(keys + base, count, bins, rank, put);
    const unsigned last = (2u << bits) - 1;
#pragma unroll 1
    for (int first = threadIdx.x; first < count; first += TOGETHER * THREADS) {
        entry row[TOGETHER], found[TOGETHER];
        unsigned slot[TOGETHER];
#pragma unroll
        for (int k = 0; k < TOGETHER; k++) {
            found[k] = EMPTY;
            if (first + k * THREADS < count) {
                row[k] = rows[first + k * THREADS];
                slot[k] = hash_of(static_cast<int>(row[k] >> 32)) >> (32 - bits) << 1;
                found[k] = atomicCAS(table + slot[k], EMPTY, row[k]);
            }
        }
#pragma unroll
        for (int k = 0; k < TOGETHER; k++) {
            while (found[k] != EMPTY) {
                slot[k] = (slot[k] + 1) & last;
                found[k] = atomicCAS(table + slot[k], EMPTY, row[k]);
            }
        }
    }
}

__device__ __forceinline__ bool look(entry row, int key, int &result)
{
    if (static_cast<int>(row >> 32) == key)
        result = static_cast<int>(row);
    return row == EMPTY || static_cast<int>(row >> 32) == key;
}

extern "C" __global__ void __launch_bounds__(THREADS, 2)
    probe(const int *__restrict__ probes, const entry *__restrict__ table, int *__restrict__ joined, int m, int bits)
{
    extern __shared__ __align__(16) int staged[];
    constexpr int TILE = THREADS * PROBES;
    int *bins = staged + TILE;
    const int base = blockIdx.x * TILE, count = min(TILE, m - base);
    unsigned rank[PROBES / 2];
    const auto put = [&](unsigned to, int key, int) { staged[to] = key; };
    if (count == TILE)
        sort_tile<true, PROBES>(probes + base, count, bins, rank, put);
    else
        sort_tile<false, PROBES>(probes + base, count, bins, rank, put);
    // Answers take the places of their keys.
    const unsigned last = (2u << bits) - 1;
#pragma unroll 1
    for (int first = threadIdx.x; first < count; first += TOGETHER * THREADS) {
        int key[TOGETHER], result[TOGETHER];
        ulonglong2 bucket[TOGETHER];
#pragma unroll
        for (int k = 0; k < TOGETHER; k++) {
            key[k] = first + k * THREADS < count ? staged[first + k * THREADS] : 0;
            bucket[k] = __ldg(reinterpret_cast<const ulonglong2 *>(table) + (hash_of(key[k]) >> (32 - bits)));
        }
#pragma unroll
        for (int k = 0; k < TOGETHER; k++) {
            result[k] = -1;
            if (look(bucket[k].x, key[k], result[k]) || look(bucket[k].y, key[k], result[k]))
                continue;
            unsigned slot = ((hash_of(key[k]) >> (32 - bits) << 1) + 2) & last;
            while (!look(table[slot], key[k], result[k]))
                slot = (slot + 1) & last;
        }
#pragma unroll
        for (int k = 0; k < TOGETHER; k++)
            if (first + k * THREADS < count)
                staged[first + k * THREADS] = result[k];
    }
    __syncthreads();
#pragma unroll
    for (int r = 0; r < PROBES; r += 4) {
        const int at = (r / 4 * THREADS + threadIdx.x) * 4;
        if (at + 4 <= count) {
            __stcs(reinterpret_cast<int4 *>(joined + base + at),
                   make_int4(staged[rank[r / 2] & 0xffff], staged[rank[r / 2] >> 16], staged[rank[r / 2 + 1] & 0xffff],
                             staged[rank[r / 2 + 1] >> 16]));
        } else {
#pragma unroll
            for (int e = 0; e < 4; e++)
                if (at + e < count)
                    joined[base + at + e] = staged[rank[(r + e) / 2] >> e % 2 * 16 & 0xffff];
        }
    }
}
