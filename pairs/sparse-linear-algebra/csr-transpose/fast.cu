// Entries go to 1024 buckets of neighbouring columns in one pass, in runs of 64 bytes and in any order; a bucket then fits
// in shared memory, where its entries fall into 4096 bins of about two by column and row, and each finds its place within
// its bin. Nothing is scattered word by word. Bits of a row and of a column within its bucket share one word.
#define THREADS 512
#define WARPS (THREADS / 32)
#define FULL 0xffffffffu
#define BUCKETS 1024
#define EACH 16
#define TILE (THREADS * EACH)
#define HELD 20
#define CAPACITY (THREADS * HELD)
#define BIN_BITS 12
#define BINS (1 << BIN_BITS)
#define DIGITS 256

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

// Replaces COUNT counts in shared memory by the sums of those before each.
template <int COUNT> __device__ __forceinline__ void block_exclusive(int *counts, int *totals)
{
    constexpr int EVERY = COUNT / THREADS;
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    int item[EVERY], running = 0;
#pragma unroll
    for (int r = 0; r < EVERY; r++) {
        const int own = counts[(warp * EVERY + r) * 32 + lane], upto = warp_inclusive(own, lane);
        item[r] = running + upto - own;
        running += __shfl_sync(FULL, upto, 31);
    }
    if (lane == 0)
        totals[warp] = running;
    __syncthreads();
    const int before_warps = warp_inclusive(lane < warp ? totals[lane] : 0, lane);
    const int before = __shfl_sync(FULL, before_warps, 31);
#pragma unroll
    for (int r = 0; r < EVERY; r++)
        counts[(warp * EVERY + r) * 32 + lane] = before + item[r];
    __syncthreads();
}

// How many entries each bucket has, and the row of each tile's first entry.
extern "C" __global__ void __launch_bounds__(THREADS)
    count(const int *__restrict__ offsets, const int *__restrict__ columns, int *__restrict__ counts,
          int *__restrict__ tile_rows, int rows, int nnz, int shift)
{
    __shared__ int bins[BUCKETS];
    for (int b = threadIdx.x; b < BUCKETS; b += THREADS)
        bins[b] = 0;
    __syncthreads();
    const int thread = blockIdx.x * THREADS + threadIdx.x, threads = gridDim.x * THREADS;
#pragma unroll 4
    for (int q = thread; q < nnz / 4; q += threads) {
        const int4 column = reinterpret_cast<const int4 *>(columns)[q];
        atomicAdd(bins + (column.x >> shift), 1);
        atomicAdd(bins + (column.y >> shift), 1);
        atomicAdd(bins + (column.z >> shift), 1);
        atomicAdd(bins + (column.w >> shift), 1);
    }
    if (thread < nnz % 4)
        atomicAdd(bins + (columns[nnz / 4 * 4 + thread] >> shift), 1);
#pragma unroll 2
    for (int row = thread; row < rows; row += threads) {
        const int begin = offsets[row], end = offsets[row + 1];
        for (int tile = (begin + TILE - 1) / TILE; tile * TILE < end; tile++)
            tile_rows[tile] = row;
    }
    __syncthreads();
    for (int b = threadIdx.x; b < BUCKETS; b += THREADS)
        if (bins[b])
            atomicAdd(counts + b, bins[b]);
}

// One block: where each bucket begins.
extern "C" __global__ void __launch_bounds__(THREADS)
    scan(const int *__restrict__ counts, int *__restrict__ starts, int *__restrict__ taken)
{
    __shared__ int sums[BUCKETS];
    __shared__ int totals[WARPS];
    for (int b = threadIdx.x; b < BUCKETS; b += THREADS)
        sums[b] = counts[b];
    __syncthreads();
    block_exclusive<BUCKETS>(sums, totals);
    for (int b = threadIdx.x; b < BUCKETS; b += THREADS)
        starts[b] = taken[b] = sums[b];
}

// A tile is put in order of its buckets in shared memory and written in runs. It takes its room by atomics and waits for
// no other tile.
extern "C" __global__ void __launch_bounds__(THREADS, 2)
    partition(const int *__restrict__ offsets, const int *__restrict__ columns, const float *__restrict__ values,
              const int *__restrict__ tile_rows, int *__restrict__ taken, int2 *__restrict__ mixed, int rows, int nnz,
              int shift, int row_bits)
{
    extern __shared__ __align__(16) int2 staged[];
    int *row_of = reinterpret_cast<int *>(staged); // only until entries are staged
    unsigned short *bucket_of = reinterpret_cast<unsigned short *>(staged + TILE);
    int *bins = reinterpret_cast<int *>(bucket_of + TILE), *shift_by = bins + BUCKETS;
    __shared__ int totals[WARPS];
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const int base = blockIdx.x * TILE, count = min(TILE, nnz - base);
    const int first = warp * (32 * EACH) + lane * 4;
    int key[EACH];
#pragma unroll
    for (int r = 0; r < EACH; r += 4) {
        const int at = first + r * 32;
        if (at + 3 < count) {
            const int4 four = __ldcs(reinterpret_cast<const int4 *>(columns + base + at));
            key[r] = four.x, key[r + 1] = four.y, key[r + 2] = four.z, key[r + 3] = four.w;
        } else {
#pragma unroll
            for (int e = 0; e < 4; e++)
                key[r + e] = at + e < count ? columns[base + at + e] : 0;
        }
    }
    const int first_row = tile_rows[blockIdx.x];
    const int last_row = base + TILE < nnz ? tile_rows[blockIdx.x + 1] : rows - 1;
#pragma unroll
    for (int b = threadIdx.x; b < BUCKETS; b += THREADS)
        bins[b] = 0;
#pragma unroll
    for (int i = threadIdx.x; i < TILE / 4; i += THREADS)
        reinterpret_cast<int4 *>(row_of)[i] = make_int4(0, 0, 0, 0);
    __syncthreads();
    for (int row = first_row + threadIdx.x; row <= last_row; row += THREADS) {
        const int begin = offsets[row], end = offsets[row + 1];
        if (begin < end && begin - base < count)
            row_of[max(begin - base, 0)] = row;
    }
    // The bucket and the entry's rank among those of the tile's entries in it, in one word.
    unsigned rank[EACH];
#pragma unroll
    for (int r = 0; r < EACH; r++) {
        const unsigned bucket = key[r] >> shift;
        rank[r] = first + r / 4 * 128 + r % 4 < count ? bucket << 16 | atomicAdd(bins + bucket, 1) : FULL;
    }
    __syncthreads();
    // Rows ascend: an entry's row is the largest that begins at or before it.
    int running = 0;
#pragma unroll
    for (int r = 0; r < EACH; r += 4) {
        int4 row = *reinterpret_cast<const int4 *>(row_of + first + r * 32);
        row.y = max(row.x, row.y), row.z = max(row.y, row.z), row.w = max(row.z, row.w);
        int upto = row.w;
#pragma unroll
        for (int distance = 1; distance < 32; distance *= 2)
            upto = max(upto, __shfl_up_sync(FULL, upto, distance));
        int before = __shfl_up_sync(FULL, upto, 1);
        before = lane > 0 ? max(before, running) : running;
        running = max(running, __shfl_sync(FULL, upto, 31));
        const int own[4] = {max(row.x, before), max(row.y, before), max(row.z, before), max(row.w, before)};
#pragma unroll
        for (int e = 0; e < 4; e++)
            key[r + e] = (key[r + e] & ((1 << shift) - 1)) << row_bits | own[e];
    }
    if (lane == 0)
        totals[warp] = running;
#pragma unroll
    for (int b = threadIdx.x; b < BUCKETS; b += THREADS) {
        const int own = bins[b];
        shift_by[b] = own ? atomicAdd(taken + b, own) : 0;
    }
    float value[EACH];
#pragma unroll
    for (int r = 0; r < EACH; r += 4) {
        const int at = first + r * 32;
        if (at + 3 < count) {
            const float4 four = __ldcs(reinterpret_cast<const float4 *>(values + base + at));
            value[r] = four.x, value[r + 1] = four.y, value[r + 2] = four.z, value[r + 3] = four.w;
        } else {
#pragma unroll
            for (int e = 0; e < 4; e++)
                value[r + e] = at + e < count ? values[base + at + e] : 0.0f;
        }
    }
    __syncthreads();
    const int row_before = __reduce_max_sync(FULL, lane < warp ? totals[lane] : 0);
    __syncthreads();
    block_exclusive<BUCKETS>(bins, totals);
#pragma unroll
    for (int b = threadIdx.x; b < BUCKETS; b += THREADS)
        shift_by[b] -= bins[b];
    // Only entries before the first row that begins in the warp's stretch lack a row of it.
    const int row_mask = static_cast<int>((1u << row_bits) - 1);
#pragma unroll
    for (int r = 0; r < EACH; r++) {
        if (rank[r] != FULL) {
            const int bucket = rank[r] >> 16, at = bins[bucket] + (rank[r] & 0xffff);
            const int row = max(key[r] & row_mask, row_before);
            staged[at] = make_int2((key[r] & ~row_mask) | row, __float_as_int(value[r]));
            bucket_of[at] = static_cast<unsigned short>(bucket);
        }
    }
    __syncthreads();
#pragma unroll 8
    for (int r = 0; r < EACH; r++) {
        const int at = r * THREADS + threadIdx.x;
        if (at < count)
            mixed[shift_by[bucket_of[at]] + at] = staged[at];
    }
}

// A block a bucket.
extern "C" __global__ void __launch_bounds__(THREADS, 2)
    order(const int *__restrict__ starts, const int2 *__restrict__ mixed, int *__restrict__ t_offsets,
          int *__restrict__ t_rows, float *__restrict__ t_values, int cols, int nnz, int shift, int row_bits)
{
    extern __shared__ __align__(16) int2 staged[];
    unsigned *staged_key = reinterpret_cast<unsigned *>(staged);
    int *staged_value = reinterpret_cast<int *>(staged_key + CAPACITY);
    int *bins = staged_value + CAPACITY;
    __shared__ int totals[WARPS];
    const int start = starts[blockIdx.x];
    const int size = (blockIdx.x + 1 < BUCKETS ? starts[blockIdx.x + 1] : nnz) - start;
    if (blockIdx.x == 0 && threadIdx.x == 0)
        t_offsets[cols] = nnz;
    if (size > CAPACITY)
        return;
#pragma unroll
    for (int b = threadIdx.x; b < BINS / 4; b += THREADS)
        reinterpret_cast<int4 *>(bins)[b] = make_int4(0, 0, 0, 0);
    __syncthreads();
    // Entries are read twice, once to count them: the second time they are in the L2 cache, and need no registers until
    // then.
    const int drop = max(shift + row_bits - BIN_BITS, 0);
    unsigned rank[HELD / 2];
    {
        unsigned key[HELD];
#pragma unroll
        for (int r = 0; r < HELD; r++) {
            const int at = r * THREADS + threadIdx.x;
            key[r] = at < size ? __ldg(mixed + start + at).x : 0;
        }
#pragma unroll
        for (int r = 0; r < HELD; r++) {
            int own = 0;
            if (r * THREADS + threadIdx.x < size)
                own = atomicAdd(bins + (key[r] >> drop), 1);
            rank[r / 2] = r % 2 ? rank[r / 2] | own << 16 : own;
        }
    }
    __syncthreads();
    block_exclusive<BINS>(bins, totals);
    for (int c = threadIdx.x; c < 1 << shift; c += THREADS) {
        const int column = (blockIdx.x << shift) + c;
        if (column < cols)
            t_offsets[column] = start + bins[static_cast<unsigned>(c) << row_bits >> drop];
    }
#pragma unroll
    for (int r = 0; r < HELD; r++) {
        const int at = r * THREADS + threadIdx.x;
        if (at < size) {
            const int2 entry = __ldcs(mixed + start + at);
            const int to = bins[static_cast<unsigned>(entry.x) >> drop] + (rank[r / 2] >> r % 2 * 16 & 0xffff);
            staged_key[to] = entry.x;
            staged_value[to] = entry.y;
        }
    }
    __syncthreads();
    const unsigned row_mask = (1u << row_bits) - 1;
#pragma unroll 2
    for (int at = threadIdx.x; at < size; at += THREADS) {
        const unsigned own = staged_key[at];
        const int bin = own >> drop, begin = bins[bin], end = bin + 1 < BINS ? bins[bin + 1] : size;
        int place = start + begin;
        for (int i = begin; i < end; i++)
            place += staged_key[i] < own;
        t_rows[place] = own & row_mask;
        t_values[place] = __int_as_float(staged_value[at]);
    }
}

// Four stable passes of eight bits, by one block, that end where they began.
__device__ __forceinline__ void sort_long(int2 *from, int2 *to, int size)
{
    __shared__ int bins[WARPS * DIGITS], first[DIGITS];
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    for (int low = 0; low < 32; low += 8) {
        if (threadIdx.x < DIGITS)
            first[threadIdx.x] = 0;
        __syncthreads();
        for (int i = threadIdx.x; i < size; i += THREADS)
            atomicAdd(first + (from[i].x >> low & (DIGITS - 1)), 1);
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
            const int2 entry = mine ? from[base + threadIdx.x] : make_int2(0, 0);
            const int digit = entry.x >> low & (DIGITS - 1);
            unsigned peers = __ballot_sync(FULL, mine);
#pragma unroll
            for (int bit = 0; bit < 8; bit++) {
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
                to[bins[warp * DIGITS + digit] + within] = entry;
            __syncthreads();
        }
        int2 *swapped = from;
        from = to;
        to = swapped;
    }
}

// Buckets that are too large for shared memory: a few columns with many entries.
extern "C" __global__ void __launch_bounds__(THREADS)
    order_rest(const int *__restrict__ starts, int2 *mixed, int2 *spare, int *__restrict__ t_offsets,
               int *__restrict__ t_rows, float *__restrict__ t_values, int cols, int nnz, int shift, int row_bits)
{
    for (int b = blockIdx.x; b < BUCKETS; b += gridDim.x) {
        const int start = starts[b], size = (b + 1 < BUCKETS ? starts[b + 1] : nnz) - start;
        if (size <= CAPACITY)
            continue;
        sort_long(mixed + start, spare + start, size);
        for (int i = threadIdx.x; i <= size; i += THREADS) {
            const int before = i > 0 ? static_cast<unsigned>(mixed[start + i - 1].x) >> row_bits : -1;
            const int column = i < size ? static_cast<unsigned>(mixed[start + i].x) >> row_bits : (1 << shift) - 1;
            for (int c = before + 1; c <= column && (b << shift) + c < cols; c++)
                t_offsets[(b << shift) + c] = start + i;
            if (i < size) {
                t_rows[start + i] = mixed[start + i].x & static_cast<int>((1u << row_bits) - 1);
                t_values[start + i] = __int_as_float(mixed[start + i].y);
            }
        }
        __syncthreads();
    }
}
