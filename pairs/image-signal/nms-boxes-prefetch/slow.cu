#define GROUP 64

typedef unsigned long long word;

// Bit j of word (i, group): box 64 * group + j comes after box i and overlaps it by more than half.
extern "C" __global__ void __launch_bounds__(GROUP)
    overlaps(const int2 *__restrict__ corners, const int2 *__restrict__ extents, word *__restrict__ masks, int n,
             int groups)
{
    __shared__ int4 others[GROUP];
    const int rows = blockIdx.y, group = blockIdx.x;
    if (group < rows)
        return;
    const int other = group * GROUP + threadIdx.x, own = rows * GROUP + threadIdx.x;
    if (other < n) {
        const int2 corner = corners[other], extent = extents[other];
        others[threadIdx.x] = make_int4(corner.x, corner.y, corner.x + extent.x, corner.y + extent.y);
    }
    __syncthreads();
    if (own >= n)
        return;
    const int2 corner = corners[own], extent = extents[own];
    const int right = corner.x + extent.x, bottom = corner.y + extent.y, area = extent.x * extent.y;
    const int count = min(GROUP, n - group * GROUP);
    word mask = 0;
#pragma unroll 4
    for (int j = group == rows ? threadIdx.x + 1 : 0; j < count; j++) {
        const int4 box = others[j];
        const int w = min(right, box.z) - max(corner.x, box.x), h = min(bottom, box.w) - max(corner.y, box.y);
        const int both = area + (box.z - box.x) * (box.w - box.y);
        if (3 * max(w, 0) * max(h, 0) > both)
            mask |= 1ull << j;
    }
    masks[static_cast<size_t>(own) * groups + group] = mask;
}

// One block. One thread settles a group of 64, then all threads strike out what the group suppresses.
extern "C" __global__ void __launch_bounds__(256)
    settle(const word *__restrict__ masks, unsigned char *__restrict__ keep, int n, int groups)
{
    extern __shared__ word struck[];
    __shared__ word own[GROUP];
    __shared__ word kept;
    for (int g = threadIdx.x; g < groups; g += 256)
        struck[g] = 0;
    for (int group = 0; group < groups; group++) {
        const int first = group * GROUP, count = min(GROUP, n - first);
        if (threadIdx.x < count)
            own[threadIdx.x] = masks[static_cast<size_t>(first + threadIdx.x) * groups + group];
        __syncthreads();
        if (threadIdx.x == 0) {
            word gone = struck[group], alive = 0;
#pragma unroll 8
            for (int k = 0; k < count; k++) {
                const word bit = 1ull << k, mask = own[k];
                const bool stays = !(gone & bit);
                alive |= stays ? bit : 0;
                gone |= stays ? mask : 0;
            }
            kept = alive;
        }
        __syncthreads();
        const word alive = kept;
        if (threadIdx.x < count)
            keep[first + threadIdx.x] = alive >> threadIdx.x & 1;
        for (int g = group + 1 + threadIdx.x; g < groups; g += 256) {
            word gone = struck[g];
#pragma unroll 16
            for (int k = 0; k < count; k++)
                if (alive >> k & 1)
                    gone |= __ldg(masks + static_cast<size_t>(first + k) * groups + g);
            struck[g] = gone;
        }
        __syncthreads();
    }
}
