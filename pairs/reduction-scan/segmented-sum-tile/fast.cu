// A block makes the prefix sums of a tile in shared memory; a segment's sum is the difference of two of them, so that
// lengths do not matter. Sums wrap, so differences are exact.
#define THREADS 512
#define CHUNKS 4
#define WARPS (THREADS / 32)
#define TILE (THREADS * CHUNKS * 4)
#define FULL 0xffffffffu

// A segment's thread notes it for all tiles whose first value is its own, and clears its sum.
extern "C" __global__ void __launch_bounds__(256)
    find_segments(const int *__restrict__ offsets, int *__restrict__ starts, int *__restrict__ sums, int segments)
{
    const int s = blockIdx.x * blockDim.x + threadIdx.x;
    if (s >= segments)
        return;
    const int from = offsets[s], to = offsets[s + 1];
    sums[s] = 0;
    for (int tile = (from + TILE - 1) / TILE; tile * static_cast<long long>(TILE) < to; tile++)
        starts[tile] = s;
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

extern "C" __global__ void __launch_bounds__(THREADS, 3)
    segmented_sum(const int *__restrict__ offsets, const int *__restrict__ values, const int *__restrict__ starts,
                  int *__restrict__ sums, int n, int segments)
{
    // The sum of all values of the tile's warp before each, and that of all.
    __shared__ __align__(16) int before[TILE + 4];
    __shared__ int warp_totals[WARPS];
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const int base = blockIdx.x * TILE, size = min(TILE, n - base);
    const int first = warp * (TILE / WARPS) + lane * 4;
    int4 item[CHUNKS];
#pragma unroll
    for (int c = 0; c < CHUNKS; c++) {
        const int at = first + c * 128;
        if (size == TILE) {
            item[c] = __ldcs(reinterpret_cast<const int4 *>(values + base + at));
        } else {
            item[c].x = at < size ? values[base + at] : 0;
            item[c].y = at + 1 < size ? values[base + at + 1] : 0;
            item[c].z = at + 2 < size ? values[base + at + 2] : 0;
            item[c].w = at + 3 < size ? values[base + at + 3] : 0;
        }
    }
    const int low = starts[blockIdx.x], high = blockIdx.x + 1 < gridDim.x ? starts[blockIdx.x + 1] : segments - 1;
    int s = low + static_cast<int>(threadIdx.x), from = 0, to = 0;
    if (s <= high) {
        from = offsets[s];
        to = offsets[s + 1];
    }
    int running = 0;
#pragma unroll
    for (int c = 0; c < CHUNKS; c++) {
        const int own = item[c].x + item[c].y + item[c].z + item[c].w;
        const int upto = warp_inclusive(own, lane);
        int4 sum;
        sum.x = running + upto - own;
        sum.y = sum.x + item[c].x;
        sum.z = sum.y + item[c].y;
        sum.w = sum.z + item[c].z;
        *reinterpret_cast<int4 *>(before + first + c * 128) = sum;
        running += __shfl_sync(FULL, upto, 31);
    }
    if (lane == 0)
        warp_totals[warp] = running;
    __syncthreads();
    if (warp == 0) {
        const int own = lane < WARPS ? warp_totals[lane] : 0, upto = warp_inclusive(own, lane);
        if (lane < WARPS)
            warp_totals[lane] = upto - own;
        if (lane == 31)
            before[TILE] = upto;
    }
    __syncthreads();
    const auto upto = [&](int at) { return before[at] + (at < TILE ? warp_totals[at / (TILE / WARPS)] : 0); };
    while (s <= high) {
        const int sum = upto(min(to - base, TILE)) - upto(max(from - base, 0));
        if (s == low || s == high)
            atomicAdd(sums + s, sum);
        else
            sums[s] = sum;
        s += THREADS;
        if (s <= high) {
            from = offsets[s];
            to = offsets[s + 1];
        }
    }
}
