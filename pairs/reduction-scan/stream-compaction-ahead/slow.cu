#define THREADS 256
#define WARPS (THREADS / 32)
#define CHUNKS 4
#define TILE (THREADS * CHUNKS * 4)
#define FULL 0xffffffffu
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

__device__ int look_back(volatile word *states, int tile, int total, int lane)
{
    int before = 0;
    if (tile > 0) {
        if (lane == 0)
            states[tile] = pack(HAS_TOTAL, total);
        bool found = false;
        for (int base = tile - 1; !found; base -= 32) {
            word state;
            do {
                state = base >= lane ? states[base - lane] : pack(HAS_PREFIX, 0);
            } while (__any_sync(FULL, (state >> 32) == 0));
            unsigned prefixes = __ballot_sync(FULL, (state >> 32) == HAS_PREFIX);
            int last = prefixes ? __ffs(prefixes) - 1 : 31;
            before += __reduce_add_sync(FULL, lane <= last ? static_cast<int>(state) : 0);
            found = prefixes != 0;
        }
    }
    if (lane == 0)
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
