// One pass with look-back over 128 tiles at once, and 32 values a thread in flight, so that a tile is large and few
// follow one another.
#define THREADS 256
#define WARPS (THREADS / 32)
#define CHUNKS 8
#define TILE (THREADS * CHUNKS * 4)
#define FULL 0xffffffffu
#define AHEAD 4

typedef unsigned long long word;

__device__ __forceinline__ word pack(int flag, int value)
{
    return static_cast<word>(flag) << 32 | static_cast<unsigned>(value);
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

// Looks at 32 tiles, then at 128 at a time: with 32, what is in flight between the newest tile and the last whose prefix is
// known takes many dependent reads, and bounds the rate of tiles. Waits only for tiles behind the nearest known prefix.
__device__ int look_back(volatile word *states, int tile, int total, int lane)
{
    if (lane == 0)
        states[tile] = pack(tile > 0 ? 1 : 2, total);
    int before = 0, base = tile - 1;
    bool found = tile == 0;
    int ahead = 1;
    while (!found) {
        int next_ahead = ahead;
        word state[AHEAD];
#pragma unroll
        for (int j = 0; j < AHEAD; j++) {
            const int at = base - j * 32 - lane;
            state[j] = at >= 0 && j < ahead ? states[at] : pack(2, 0);
        }
#pragma unroll
        for (int j = 0; j < AHEAD; j++) {
            if (j >= ahead)
                break;
            const unsigned whole = __ballot_sync(FULL, (state[j] >> 32) == 2);
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
        states[tile] = pack(2, before + total);
    return before;
}

extern "C" __global__ void __launch_bounds__(THREADS)
    part(const int *__restrict__ values, int *__restrict__ parted, int *__restrict__ count, word *states, int *ticket,
         int n, int limit)
{
    __shared__ int staged[TILE];
    __shared__ int totals[WARPS];
    __shared__ int shared_tile, chosen_before, chosen_here;
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    if (threadIdx.x == 0)
        shared_tile = atomicAdd(ticket, 1);
    __syncthreads();
    const int tile = shared_tile, base = tile * TILE;
    const int size = min(TILE, n - base);

    int4 item[CHUNKS];
    int start[CHUNKS], running = 0;
#pragma unroll
    for (int c = 0; c < CHUNKS; c++) {
        const int at = base + warp * (TILE / WARPS) + c * 128 + lane * 4;
        if (at + 3 < n) {
            item[c] = __ldcs(reinterpret_cast<const int4 *>(values + at));
        } else {
            item[c].x = at < n ? values[at] : limit;
            item[c].y = at + 1 < n ? values[at + 1] : limit;
            item[c].z = at + 2 < n ? values[at + 2] : limit;
            item[c].w = limit;
        }
    }
#pragma unroll
    for (int c = 0; c < CHUNKS; c++) {
        const int own = (item[c].x < limit) + (item[c].y < limit) + (item[c].z < limit) + (item[c].w < limit);
        const int upto = warp_inclusive(own, lane);
        start[c] = running + upto - own;
        running += __shfl_sync(FULL, upto, 31);
    }
    if (lane == 0)
        totals[warp] = running;
    __syncthreads();
    if (warp == 0) {
        const int own = lane < WARPS ? totals[lane] : 0;
        const int upto = warp_inclusive(own, lane);
        const int total = __shfl_sync(FULL, upto, 31);
        const int before = look_back(states, tile, total, lane);
        if (lane < WARPS)
            totals[lane] = upto - own;
        if (lane == 0) {
            chosen_before = before;
            chosen_here = total;
            if (base + size == n)
                *count = before + total;
        }
    }
    __syncthreads();
    const int here = chosen_here;
#pragma unroll
    for (int c = 0; c < CHUNKS; c++) {
        const int local = warp * (TILE / WARPS) + c * 128 + lane * 4;
        int place = totals[warp] + start[c];
        const int four[4] = {item[c].x, item[c].y, item[c].z, item[c].w};
#pragma unroll
        for (int e = 0; e < 4; e++) {
            if (local + e < size) {
                if (four[e] < limit)
                    staged[place++] = four[e];
                else
                    staged[here + local + e - place] = four[e];
            }
        }
    }
    __syncthreads();
    const int before = chosen_before;
    const int others = base - before;
#pragma unroll 4
    for (int k = threadIdx.x; k < size; k += THREADS) {
        if (k < here)
            parted[before + k] = staged[k];
        else
            parted[n - 1 - (others + k - here)] = staged[k];
    }
}
