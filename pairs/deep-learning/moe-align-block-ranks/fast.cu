// A block an expert scans the counts of the chunks, and the blocks that place the entries each add up the experts
// before theirs and share the padding, so that no launch waits for a single block.
#define THREADS 256
#define WARPS (THREADS / 32)
#define ROUNDS 4
#define CHUNK (THREADS * ROUNDS)
#define SCANNERS 256
#define ALL 0xffffffffu

// counts[expert][chunk]: how often a chunk of the entries names an expert.
extern "C" __global__ void __launch_bounds__(THREADS)
    count_chunks(const int *__restrict__ ids, int *__restrict__ counts, int entries, int experts)
{
    extern __shared__ int found[];
    for (int i = threadIdx.x; i < experts; i += THREADS)
        found[i] = 0;
    __syncthreads();
#pragma unroll
    for (int round = 0; round < ROUNDS; round++) {
        const int i = blockIdx.x * CHUNK + round * THREADS + threadIdx.x;
        const int id = i < entries ? ids[i] : -1;
        const unsigned same = __match_any_sync(ALL, id);
        if (id >= 0 && __ffs(same) - 1 == threadIdx.x % 32)
            atomicAdd(&found[id], __popc(same));
    }
    __syncthreads();
    for (int i = threadIdx.x; i < experts; i += THREADS)
        counts[i * gridDim.x + blockIdx.x] = found[i];
}

__device__ __forceinline__ int inclusive(int value)
{
#pragma unroll
    for (int offset = 1; offset < 32; offset *= 2) {
        const int other = __shfl_up_sync(ALL, value, offset);
        value += threadIdx.x % 32 >= offset ? other : 0;
    }
    return value;
}

// A block an expert: its counts become places among its entries.
extern "C" __global__ void __launch_bounds__(SCANNERS)
    scan_experts(int *__restrict__ counts, int *__restrict__ sizes, int chunks)
{
    __shared__ int sums[SCANNERS / 32];
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    int *row = counts + static_cast<size_t>(blockIdx.x) * chunks;
    int before = 0;
    for (int first = 0; first < chunks; first += 2 * SCANNERS) {
        const int i = first + 2 * threadIdx.x;
        const int own = i < chunks ? row[i] : 0, other = i + 1 < chunks ? row[i + 1] : 0;
        const int upto = inclusive(own + other);
        if (lane == 31)
            sums[warp] = upto;
        __syncthreads();
        const int whole = inclusive(lane < SCANNERS / 32 ? sums[lane] : 0);
        const int earlier = __shfl_sync(ALL, whole, max(warp - 1, 0));
        const int at = before + upto - own - other + (warp > 0 ? earlier : 0);
        if (i < chunks)
            row[i] = at;
        if (i + 1 < chunks)
            row[i + 1] = at + own;
        before += __shfl_sync(ALL, whole, 31);
        __syncthreads();
    }
    if (threadIdx.x == 0)
        sizes[blockIdx.x] = before;
}

// Ranks within a chunk keep the entries' order: warps own runs of it, and count their experts before they place.
extern "C" __global__ void __launch_bounds__(THREADS)
    place(const int *__restrict__ ids, const int *__restrict__ counts, const int *__restrict__ sizes,
          int *__restrict__ order, int *__restrict__ tile_expert, int *__restrict__ total, int entries, int experts,
          int tile, int capacity)
{
    extern __shared__ int next[];
    // Where each expert's part of the order begins, and where all end: multiples of the tile.
    int *begins = next + WARPS * experts;
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    int *mine = next + warp * experts;
    int id[ROUNDS];
    unsigned same[ROUNDS];
    const int first = blockIdx.x * CHUNK + warp * 32 * ROUNDS + lane;
#pragma unroll
    for (int round = 0; round < ROUNDS; round++)
        id[round] = first + 32 * round < entries ? ids[first + 32 * round] : -1;
    for (int i = threadIdx.x; i < WARPS * experts; i += THREADS)
        next[i] = 0;
    for (int i = threadIdx.x; i < experts; i += THREADS)
        begins[i] = sizes[i];
    __syncthreads();
#pragma unroll
    for (int round = 0; round < ROUNDS; round++) {
        same[round] = __match_any_sync(ALL, id[round]);
        if (id[round] >= 0 && __ffs(same[round]) - 1 == lane)
            mine[id[round]] += __popc(same[round]);
        __syncwarp();
    }
    if (warp == 0) {
        int before = 0;
        for (int from = 0; from < experts; from += 32) {
            const int padded = from + lane < experts ? (begins[from + lane] + tile - 1) / tile * tile : 0;
            const int upto = inclusive(padded);
            if (from + lane < experts)
                begins[from + lane] = before + upto - padded;
            before += __shfl_sync(ALL, upto, 31);
        }
        if (lane == 0) {
            begins[experts] = before;
            if (blockIdx.x == 0)
                *total = before;
        }
    }
    __syncthreads();
    for (int expert = threadIdx.x; expert < experts; expert += THREADS) {
        int at = begins[expert] + counts[static_cast<size_t>(expert) * gridDim.x + blockIdx.x];
#pragma unroll
        for (int w = 0; w < WARPS; w++) {
            const int own = next[w * experts + expert];
            next[w * experts + expert] = at;
            at += own;
        }
    }
    __syncthreads();
#pragma unroll
    for (int round = 0; round < ROUNDS; round++) {
        const int at = id[round] >= 0 ? mine[id[round]] : 0;
        __syncwarp();
        if (id[round] >= 0) {
            order[at + __popc(same[round] & ((1u << lane) - 1))] = first + 32 * round;
            if (__ffs(same[round]) - 1 == lane)
                mine[id[round]] = at + __popc(same[round]);
        }
        __syncwarp();
    }
    // The padding behind each expert's entries, a warp an expert, and the unused end.
    const int warps = gridDim.x * WARPS;
    for (int expert = blockIdx.x * WARPS + warp; expert < experts; expert += warps) {
        const int end = begins[expert + 1];
        for (int i = begins[expert] + sizes[expert] + lane; i < end; i += 32)
            order[i] = entries;
        for (int i = begins[expert] / tile + lane; i < end / tile; i += 32)
            tile_expert[i] = expert;
    }
    const int thread = blockIdx.x * THREADS + threadIdx.x, threads = gridDim.x * THREADS;
    for (int i = begins[experts] + thread; i < capacity; i += threads)
        order[i] = entries;
    for (int i = begins[experts] / tile + thread; i < capacity / tile; i += threads)
        tile_expert[i] = -1;
}
