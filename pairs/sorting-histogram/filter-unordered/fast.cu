#define THREADS 256
#define WARPS (THREADS / 32)
#define CHUNKS 4
#define TILE (THREADS * CHUNKS * 4)
#define FULL 0xffffffffu

extern "C" __global__ void __launch_bounds__(THREADS)
    filter(const int *__restrict__ values, int *__restrict__ kept, int *__restrict__ count, int n, int limit)
{
    __shared__ int staged[TILE];
    __shared__ int found, start;
    const int lane = threadIdx.x % 32;
    const int first = blockIdx.x * TILE;
    if (threadIdx.x == 0)
        found = 0;
    __syncthreads();

    int4 item[CHUNKS];
#pragma unroll
    for (int c = 0; c < CHUNKS; c++) {
        const int at = first + (c * THREADS + threadIdx.x) * 4;
        if (first + TILE <= n) {
            item[c] = __ldcs(reinterpret_cast<const int4 *>(values + at));
        } else {
            item[c].x = at < n ? values[at] : limit;
            item[c].y = at + 1 < n ? values[at + 1] : limit;
            item[c].z = at + 2 < n ? values[at + 2] : limit;
            item[c].w = at + 3 < n ? values[at + 3] : limit;
        }
    }
    int own = 0;
#pragma unroll
    for (int c = 0; c < CHUNKS; c++)
        own += (item[c].x > limit) + (item[c].y > limit) + (item[c].z > limit) + (item[c].w > limit);
    int upto = own;
#pragma unroll
    for (int distance = 1; distance < 32; distance *= 2) {
        const int other = __shfl_up_sync(FULL, upto, distance);
        if (lane >= distance)
            upto += other;
    }
    int place = 0;
    if (lane == 31)
        place = atomicAdd(&found, upto);
    place = __shfl_sync(FULL, place, 31) + upto - own;
#pragma unroll
    for (int c = 0; c < CHUNKS; c++) {
        if (item[c].x > limit)
            staged[place++] = item[c].x;
        if (item[c].y > limit)
            staged[place++] = item[c].y;
        if (item[c].z > limit)
            staged[place++] = item[c].z;
        if (item[c].w > limit)
            staged[place++] = item[c].w;
    }
    __syncthreads();
    if (threadIdx.x == 0)
        start = atomicAdd(count, found);
    __syncthreads();
    for (int i = threadIdx.x; i < found; i += THREADS)
        kept[start + i] = staged[i];
}
