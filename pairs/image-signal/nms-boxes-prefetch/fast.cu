#define GROUP 64
#define THREADS 1024
#define COLUMNS 128
#define EACH (GROUP * COLUMNS / THREADS)

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

// The words of EACH boxes of a group for one later group.
__device__ __forceinline__ void load_words(word (&words)[EACH], const word *__restrict__ masks, int first, int column,
                                           int n, int groups)
{
#pragma unroll
    for (int r = 0; r < EACH; r++) {
        const int row = first + threadIdx.x / COLUMNS * EACH + r;
        const bool there = row < n && column < groups && column > first / GROUP;
        words[r] = there ? __ldg(masks + static_cast<size_t>(row) * groups + column) : 0;
    }
}

__device__ __forceinline__ void strike(word *struck, const word (&words)[EACH], word alive, int column)
{
    word gone = 0;
#pragma unroll
    for (int r = 0; r < EACH; r++)
        gone |= alive >> (threadIdx.x / COLUMNS * EACH + r) & 1 ? words[r] : 0;
    if (gone)
        atomicOr(struck + column, gone);
}

// One block. One thread settles a group of 64, while the words of the next group are on their way to registers; then
// all threads strike out what the group suppresses.
extern "C" __global__ void __launch_bounds__(THREADS)
    settle(const word *__restrict__ masks, unsigned char *__restrict__ keep, int n, int groups)
{
    extern __shared__ word struck[];
    __shared__ word own[GROUP];
    __shared__ word kept;
    const int column = threadIdx.x % COLUMNS;
    for (int g = threadIdx.x; g < groups; g += THREADS)
        struck[g] = 0;
    word ahead[EACH], own_ahead = threadIdx.x < min(GROUP, n) ? masks[static_cast<size_t>(threadIdx.x) * groups] : 0;
    load_words(ahead, masks, 0, column, n, groups);
    for (int group = 0; group < groups; group++) {
        const int first = group * GROUP, count = min(GROUP, n - first), next = first + GROUP;
        word words[EACH];
#pragma unroll
        for (int r = 0; r < EACH; r++)
            words[r] = ahead[r];
        if (threadIdx.x < GROUP)
            own[threadIdx.x] = own_ahead;
        __syncthreads();
        load_words(ahead, masks, next, column, n, groups);
        if (threadIdx.x < GROUP && next + threadIdx.x < n)
            own_ahead = masks[static_cast<size_t>(next + threadIdx.x) * groups + group + 1];
        if (threadIdx.x == THREADS - 1) {
            word gone = struck[group], alive = 0;
#pragma unroll 16
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
        strike(struck, words, alive, column);
        for (int more = column + COLUMNS; more < groups; more += COLUMNS) {
            load_words(words, masks, first, more, n, groups);
            strike(struck, words, alive, more);
        }
    }
}
