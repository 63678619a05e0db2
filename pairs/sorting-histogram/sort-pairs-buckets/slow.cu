#define THREADS 256
#define WARPS (THREADS / 32)
#define DIGITS 256
#define ROUNDS 16
#define TILE (THREADS * ROUNDS)
#define FULL 0xffffffffu
#define PARTIAL 0x40000000u
#define WHOLE 0x80000000u
#define VALUE 0x3fffffffu

extern "C" __global__ void __launch_bounds__(THREADS)
    count_digits(const unsigned *__restrict__ keys, int *__restrict__ counts, int n)
{
    __shared__ int bins[4][DIGITS];
#pragma unroll
    for (int p = 0; p < 4; p++)
        bins[p][threadIdx.x] = 0;
    __syncthreads();
    for (int at = (blockIdx.x * THREADS + threadIdx.x) * 4; at < n; at += gridDim.x * THREADS * 4) {
        unsigned key[4];
        if (at + 3 < n) {
            const uint4 four = *reinterpret_cast<const uint4 *>(keys + at);
            key[0] = four.x, key[1] = four.y, key[2] = four.z, key[3] = four.w;
        }
#pragma unroll
        for (int e = 0; e < 4; e++) {
            if (at + e < n) {
                const unsigned k = at + 3 < n ? key[e] : keys[at + e];
                atomicAdd(&bins[0][k & 255], 1);
                atomicAdd(&bins[1][k >> 8 & 255], 1);
                atomicAdd(&bins[2][k >> 16 & 255], 1);
                atomicAdd(&bins[3][k >> 24], 1);
            }
        }
    }
    __syncthreads();
#pragma unroll
    for (int p = 0; p < 4; p++)
        if (bins[p][threadIdx.x])
            atomicAdd(counts + p * DIGITS + threadIdx.x, bins[p][threadIdx.x]);
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

__device__ __forceinline__ int block_exclusive(int own, int *totals)
{
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const int upto = warp_inclusive(own, lane);
    if (lane == 31)
        totals[warp] = upto;
    __syncthreads();
    int before = upto - own;
    for (int w = 0; w < warp; w++)
        before += totals[w];
    return before;
}

extern "C" __global__ void __launch_bounds__(DIGITS) scan(int *counts)
{
    __shared__ int totals[WARPS];
    int *own = counts + blockIdx.x * DIGITS + threadIdx.x;
    *own = block_exclusive(*own, totals);
}

__device__ __forceinline__ unsigned same_digit(int digit)
{
    unsigned peers = FULL;
#pragma unroll
    for (int bit = 0; bit < 8; bit++) {
        const bool set = (digit >> bit) & 1;
        const unsigned vote = __ballot_sync(FULL, set);
        peers &= set ? vote : ~vote;
    }
    return peers;
}

// Items with this thread's digit in all tiles before this one.
__device__ __forceinline__ int look_back(volatile unsigned *states, int tile, int total)
{
    const int digit = threadIdx.x;
    if (tile == 0) {
        states[digit] = WHOLE | total;
        return 0;
    }
    states[tile * DIGITS + digit] = PARTIAL | total;
    int before = 0;
    for (int other = tile - 1;; other--) {
        unsigned state = states[other * DIGITS + digit];
        while (state == 0) {
            __threadfence();
            state = states[other * DIGITS + digit];
        }
        before += state & VALUE;
        if (state & WHOLE)
            break;
    }
    states[tile * DIGITS + digit] = WHOLE | (before + total);
    return before;
}

extern "C" __global__ void __launch_bounds__(THREADS)
    sweep(const unsigned *__restrict__ keys, const unsigned *__restrict__ values, const int *__restrict__ offsets,
          unsigned *states, int *ticket, unsigned *__restrict__ to_keys, unsigned *__restrict__ to_values, int n,
          int shift)
{
    __shared__ int bins[WARPS][DIGITS];
    __shared__ unsigned staged[TILE];
    __shared__ int starts[DIGITS];
    __shared__ int totals[WARPS];
    __shared__ int shared_tile;
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    if (threadIdx.x == 0)
        shared_tile = atomicAdd(ticket, 1);
#pragma unroll
    for (int w = 0; w < WARPS; w++)
        bins[w][threadIdx.x] = 0;
    __syncthreads();
    const int tile = shared_tile, base = tile * TILE;
    const int first = base + warp * (32 * ROUNDS) + lane;

    unsigned item[ROUNDS];
    int rank[ROUNDS];
#pragma unroll
    for (int r = 0; r < ROUNDS; r++)
        item[r] = first + r * 32 < n ? __ldcs(keys + first + r * 32) : 0xffffffffu;
#pragma unroll
    for (int r = 0; r < ROUNDS; r++) {
        const int digit = (item[r] >> shift) & 0xff;
        const unsigned peers = same_digit(digit);
        const int before = bins[warp][digit];
        const int within = __popc(peers & ((1u << lane) - 1));
        __syncwarp();
        if (within == 0)
            bins[warp][digit] = before + __popc(peers);
        __syncwarp();
        rank[r] = before + within;
    }
    __syncthreads();
    int total = 0;
#pragma unroll
    for (int w = 0; w < WARPS; w++) {
        const int count = bins[w][threadIdx.x];
        bins[w][threadIdx.x] = total;
        total += count;
    }
    const int padding = threadIdx.x == DIGITS - 1 ? max(0, base + TILE - n) : 0;
    const int start = block_exclusive(total, totals);
    const int before = look_back(states, tile, total - padding);
    starts[threadIdx.x] = offsets[(shift / 8) * DIGITS + threadIdx.x] + before - start;
#pragma unroll
    for (int w = 0; w < WARPS; w++)
        bins[w][threadIdx.x] += start;
    __syncthreads();
#pragma unroll
    for (int r = 0; r < ROUNDS; r++) {
        rank[r] += bins[warp][(item[r] >> shift) & 0xff];
        staged[rank[r]] = item[r];
    }
    __syncthreads();
    const int count = min(TILE, n - base);
    int place[ROUNDS];
#pragma unroll
    for (int r = 0; r < ROUNDS; r++) {
        const int at = r * THREADS + threadIdx.x;
        if (at < count) {
            const unsigned key = staged[at];
            place[r] = starts[(key >> shift) & 0xff] + at;
            to_keys[place[r]] = key;
        }
    }
    __syncthreads();
#pragma unroll
    for (int r = 0; r < ROUNDS; r++)
        staged[rank[r]] = first + r * 32 < n ? __ldcs(values + first + r * 32) : 0;
    __syncthreads();
#pragma unroll
    for (int r = 0; r < ROUNDS; r++) {
        const int at = r * THREADS + threadIdx.x;
        if (at < count)
            to_values[place[r]] = staged[at];
    }
}
