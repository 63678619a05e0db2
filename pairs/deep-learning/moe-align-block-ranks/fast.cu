#define THREADS 256
#define WARPS (THREADS / 32)
#define ROUNDS 4
#define CHUNK (THREADS * ROUNDS)
#define SCANNERS 1024
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

// One block: counts become places within the order, each expert's from a multiple of the tile on.
extern "C" __global__ void __launch_bounds__(SCANNERS)
    scan_experts(int *__restrict__ counts, int *__restrict__ starts, int *__restrict__ order,
                 int *__restrict__ tile_expert, int *__restrict__ total, int chunks, int experts, int tile, int entries,
                 int capacity)
{
    extern __shared__ int sums[];
    int *begins = sums + experts;
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    for (int expert = warp; expert < experts; expert += SCANNERS / 32) {
        int *row = counts + static_cast<size_t>(expert) * chunks;
        int before = 0;
        for (int first = 0; first < chunks; first += 32) {
            const int own = first + lane < chunks ? row[first + lane] : 0;
            const int upto = inclusive(own);
            if (first + lane < chunks)
                row[first + lane] = before + upto - own;
            before += __shfl_sync(ALL, upto, 31);
        }
        if (lane == 0)
            sums[expert] = before;
    }
    __syncthreads();
    if (warp == 0) {
        int before = 0;
        for (int first = 0; first < experts; first += 32) {
            const int padded = first + lane < experts ? (sums[first + lane] + tile - 1) / tile * tile : 0;
            const int upto = inclusive(padded);
            if (first + lane < experts) {
                begins[first + lane] = before + upto - padded;
                starts[first + lane] = before + upto - padded;
            }
            before += __shfl_sync(ALL, upto, 31);
        }
        if (lane == 0) {
            begins[experts] = before;
            total[0] = before;
        }
    }
    __syncthreads();
    for (int expert = warp; expert < experts; expert += SCANNERS / 32) {
        const int end = begins[expert + 1];
        for (int i = begins[expert] + sums[expert] + lane; i < end; i += 32)
            order[i] = entries;
        for (int i = begins[expert] / tile + lane; i < end / tile; i += 32)
            tile_expert[i] = expert;
    }
    for (int i = begins[experts] + threadIdx.x; i < capacity; i += SCANNERS)
        order[i] = entries;
    for (int i = begins[experts] / tile + threadIdx.x; i < capacity / tile; i += SCANNERS)
        tile_expert[i] = -1;
}

// Ranks within a chunk keep the entries' order: warps own runs of it, and count their experts before they place.
extern "C" __global__ void __launch_bounds__(THREADS)
    place(const int *__restrict__ ids, const int *__restrict__ counts, const int *__restrict__ starts,
          int *__restrict__ order, int entries, int experts)
{
    extern __shared__ int next[];
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    int *mine = next + warp * experts;
    int id[ROUNDS];
    unsigned same[ROUNDS];
    for (int i = threadIdx.x; i < WARPS * experts; i += THREADS)
        next[i] = 0;
    __syncthreads();
    const int first = blockIdx.x * CHUNK + warp * 32 * ROUNDS + lane;
#pragma unroll
    for (int round = 0; round < ROUNDS; round++)
        id[round] = first + 32 * round < entries ? ids[first + 32 * round] : -1;
#pragma unroll
    for (int round = 0; round < ROUNDS; round++) {
        same[round] = __match_any_sync(ALL, id[round]);
        if (id[round] >= 0 && __ffs(same[round]) - 1 == lane)
            mine[id[round]] += __popc(same[round]);
        __syncwarp();
    }
    __syncthreads();
    for (int expert = threadIdx.x; expert < experts; expert += THREADS) {
        int at = starts[expert] + counts[static_cast<size_t>(expert) * gridDim.x + blockIdx.x];
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
}
