// One pass with look-back over 128 tiles at once, and 32 values a thread in flight, so that a tile is large and few
// follow one another.
#define THREADS 256
#define WARPS (THREADS / 32)
#define CHUNKS 8
#define TILE (THREADS * CHUNKS * 4)
#define FULL 0xffffffffu
#define AHEAD 4
#define HAS_TOTAL 1
#define HAS_PREFIX 2

typedef unsigned long long word;

__device__ __forceinline__ word pack(int flag, int value)
{
    return (static_cast<word>(flag) << 32) | static_cast<unsigned>(value);
}

__device__ __forceinline__ int warp_inclusive(int value, int lane)
{
#pragma unroll
    for (int distance = 1; distance < 32; distance *= 2) {
        int other = __shfl_up_sync(FULL, value, distance);
        if (lane >= distance)
            value += other;
    }
    return value;
}

// Looks at 32 tiles, then at 128 at a time: with 32, what is in flight between the newest tile and the last whose prefix is
// known takes many dependent reads, and bounds the rate of tiles. Waits only for tiles behind the nearest known prefix.
__device__ int look_back(volatile word *states, int tile, int total, int lane)
{
    if (lane == 0)
        states[tile] = pack(tile > 0 ? HAS_TOTAL : HAS_PREFIX, total);
    int before = 0, base = tile - 1;
    bool found = tile == 0;
    int ahead = 1;
    while (!found) {
        int next_ahead = ahead;
        word state[AHEAD];
#pragma unroll
        for (int j = 0; j < AHEAD; j++) {
            const int at = base - j * 32 - lane;
            state[j] = at >= 0 && j < ahead ? states[at] : pack(HAS_PREFIX, 0);
        }
#pragma unroll
        for (int j = 0; j < AHEAD; j++) {
            if (j >= ahead)
                break;
            const unsigned whole = __ballot_sync(FULL, (state[j] >> 32) == HAS_PREFIX);
            const unsigned missing = __ballot_sync(FULL, (state[j] >> 32) == 0);
            const unsigned needed = whole ? whole ^ (whole - 1) : FULL;
            if (missing & needed)
                break;
            before += __reduce_add_sync(FULL, needed >> lane & 1 ? static_cast<int>(state[j]) : 0);
            found = whole != 0;
            if (found)
                break;
            base -= 32;
            next_ahead = AHEAD;
        }
        ahead = next_ahead;
    }
    if (lane == 0 && tile > 0)
        states[tile] = pack(HAS_PREFIX, before + total);
    return before;
}

extern "C" __global__ void __launch_bounds__(THREADS)
    compact(const int *__restrict__ values, int *__restrict__ kept, int *__restrict__ count, word *states,
            int *ticket, int n, int limit)
{
    __shared__ int warp_totals[WARPS];
    __shared__ int staged[TILE];
    __shared__ int shared_tile, shared_before, shared_total;
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    if (threadIdx.x == 0)
        shared_tile = atomicAdd(ticket, 1);
    __syncthreads();
    const int tile = shared_tile;
    const int first = tile * TILE + warp * (TILE / WARPS) + lane * 4;
    const bool whole = (tile + 1) * static_cast<long long>(TILE) <= n;

    int item[CHUNKS][4];
#pragma unroll
    for (int c = 0; c < CHUNKS; c++) {
        const int at = first + c * 128;
        if (whole) {
            const int4 load = __ldcs(reinterpret_cast<const int4 *>(values + at));
            item[c][0] = load.x;
            item[c][1] = load.y;
            item[c][2] = load.z;
            item[c][3] = load.w;
        } else {
#pragma unroll
            for (int k = 0; k < 4; k++)
                item[c][k] = at + k < n ? values[at + k] : limit;
        }
    }
    int start[CHUNKS], running = 0;
#pragma unroll
    for (int c = 0; c < CHUNKS; c++) {
        int own = 0;
#pragma unroll
        for (int k = 0; k < 4; k++)
            own += item[c][k] > limit;
        const int upto = warp_inclusive(own, lane);
        start[c] = running + upto - own;
        running += __shfl_sync(FULL, upto, 31);
    }
    if (lane == 0)
        warp_totals[warp] = running;
    __syncthreads();
    if (warp == 0) {
        const int own = lane < WARPS ? warp_totals[lane] : 0;
        const int upto = warp_inclusive(own, lane);
        const int total = __shfl_sync(FULL, upto, 31);
        if (lane < WARPS)
            warp_totals[lane] = upto - own;
        const int before = look_back(states, tile, total, lane);
        if (lane == 0) {
            shared_before = before;
            shared_total = total;
            if (tile == static_cast<int>(gridDim.x) - 1)
                *count = before + total;
        }
    }
    __syncthreads();
#pragma unroll
    for (int c = 0; c < CHUNKS; c++) {
        int at = warp_totals[warp] + start[c];
#pragma unroll
        for (int k = 0; k < 4; k++)
            if (item[c][k] > limit)
                staged[at++] = item[c][k];
    }
    __syncthreads();
    for (int i = threadIdx.x; i < shared_total; i += THREADS)
        kept[shared_before + i] = staged[i];
}
