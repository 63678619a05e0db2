#define THREADS 640
#define WARPS (THREADS / 32)
#define CHUNKS 8
#define WINDOWS 2
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

// The sum of all tiles before this one, from as many states at a time as come with one wait.
__device__ int look_back(volatile word *states, int tile, int total, int lane)
{
    int before = 0;
    if (tile > 0) {
        if (lane == 0)
            states[tile] = pack(HAS_TOTAL, total);
        bool found = false;
        for (int base = tile - 1; !found; base -= 32 * WINDOWS) {
            word state[WINDOWS];
#pragma unroll
            for (int w = 0; w < WINDOWS; w++)
                state[w] = base - 32 * w >= lane ? states[base - 32 * w - lane] : pack(HAS_PREFIX, 0);
#pragma unroll
            for (int w = 0; w < WINDOWS; w++) {
                if (found)
                    break;
                // Only what lies nearer than the nearest prefix need be there.
                unsigned missing, prefixes;
                while (true) {
                    missing = __ballot_sync(FULL, (state[w] >> 32) == 0);
                    prefixes = __ballot_sync(FULL, (state[w] >> 32) == HAS_PREFIX);
                    if ((missing & ((prefixes & -prefixes) - 1)) == 0)
                        break;
                    state[w] = base - 32 * w >= lane ? states[base - 32 * w - lane] : pack(HAS_PREFIX, 0);
                }
                const int last = prefixes ? __ffs(prefixes) - 1 : 31;
                before += __reduce_add_sync(FULL, lane <= last ? static_cast<int>(state[w]) : 0);
                found = prefixes != 0;
            }
        }
    }
    if (lane == 0)
        states[tile] = pack(HAS_PREFIX, before + total);
    return before;
}

// The number of the next tile lies behind the states, so that one fill clears both.
extern "C" __global__ void __launch_bounds__(THREADS, 2)
    scan(const int *__restrict__ values, int *__restrict__ sums, word *states, int tiles, int n)
{
    __shared__ int warp_totals[WARPS];
    __shared__ int shared_tile;
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    if (threadIdx.x == 0)
        shared_tile = static_cast<int>(atomicAdd(states + tiles, 1ull));
    __syncthreads();
    const int tile = shared_tile;
    const int first = tile * TILE + warp * (TILE / WARPS) + lane * 4;
    const bool whole = (tile + 1) * static_cast<long long>(TILE) <= n;

    int4 item[CHUNKS];
#pragma unroll
    for (int c = 0; c < CHUNKS; c++) {
        const int at = first + c * 128;
        if (whole) {
            item[c] = __ldcs(reinterpret_cast<const int4 *>(values + at));
        } else {
            item[c].x = at < n ? values[at] : 0;
            item[c].y = at + 1 < n ? values[at + 1] : 0;
            item[c].z = at + 2 < n ? values[at + 2] : 0;
            item[c].w = at + 3 < n ? values[at + 3] : 0;
        }
    }
    int start[CHUNKS], running = 0;
#pragma unroll
    for (int c = 0; c < CHUNKS; c++) {
        const int own = item[c].x + item[c].y + item[c].z + item[c].w;
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
        const int before = look_back(states, tile, __shfl_sync(FULL, upto, 31), lane);
        if (lane < WARPS)
            warp_totals[lane] = before + upto - own;
    }
    __syncthreads();
    const int before = warp_totals[warp];
#pragma unroll
    for (int c = 0; c < CHUNKS; c++) {
        const int at = first + c * 128;
        int4 sum;
        sum.x = before + start[c];
        sum.y = sum.x + item[c].x;
        sum.z = sum.y + item[c].y;
        sum.w = sum.z + item[c].z;
        if (whole) {
            __stcs(reinterpret_cast<int4 *>(sums + at), sum);
        } else {
            if (at < n)
                sums[at] = sum.x;
            if (at + 1 < n)
                sums[at + 1] = sum.y;
            if (at + 2 < n)
                sums[at + 2] = sum.z;
            if (at + 3 < n)
                sums[at + 3] = sum.w;
        }
    }
}
