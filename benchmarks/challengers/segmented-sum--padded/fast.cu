// Values come by asynchronous 16-byte copies in order, and each thread reads its own run of them from shared memory,
// where a gap after each run keeps the lanes in different banks.
#define THREADS 256
#define ITEMS 16
#define TILE (THREADS * ITEMS)
#define SLOTS 1024
#define STRIDE (ITEMS + 4)

__device__ __forceinline__ int segment_of(const int *offsets, int low, int high, int at)
{
    while (low < high) {
        const int middle = low + (high - low + 1) / 2;
        if (offsets[middle] <= at)
            low = middle;
        else
            high = middle - 1;
    }
    return low;
}

extern "C" __global__ void find_segments(const int *__restrict__ offsets, int2 *__restrict__ bounds, int segments, int n,
                                         int tiles)
{
    const int tile = blockIdx.x * blockDim.x + threadIdx.x;
    if (tile < tiles)
        bounds[tile] = make_int2(segment_of(offsets, 0, segments - 1, tile * TILE),
                                 segment_of(offsets, 0, segments - 1, min((tile + 1) * TILE, n) - 1));
}

__device__ __forceinline__ void add_items(const int (&item)[ITEMS], const int *ends, int *sums, int count,
                                          int first, int limit)
{
    int segment = 0, top = count - 1;
    while (segment < top) {
        const int middle = (segment + top) / 2;
        if (ends[middle] <= first)
            segment = middle + 1;
        else
            top = middle;
    }
    int end = ends[segment];
    int sum = 0;
#pragma unroll
    for (int c = 0; c < ITEMS; c++) {
        const int at = first + c;
        if (at >= end && at < limit) {
            atomicAdd(sums + segment, sum);
            sum = 0;
            do {
                segment++;
                end = ends[segment];
            } while (end <= at);
        }
        sum += item[c];
    }
    atomicAdd(sums + segment, sum);
}

extern "C" __global__ void __launch_bounds__(THREADS)
    segmented_sum(const int *__restrict__ offsets, const int *__restrict__ values,
                  const int2 *__restrict__ bounds, int *__restrict__ sums, int n)
{
    __shared__ int ends[SLOTS];
    __shared__ int slots[SLOTS];
    __shared__ __align__(16) int held[THREADS * STRIDE];
    const int base = blockIdx.x * TILE;
    const int limit = min(base + TILE, n);
    const int first = base + threadIdx.x * ITEMS;

    if (limit - base == TILE) {
#pragma unroll
        for (int q = threadIdx.x; q < TILE / 4; q += THREADS)
            asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(static_cast<unsigned>(__cvta_generic_to_shared(
                             held + q / (ITEMS / 4) * STRIDE + q % (ITEMS / 4) * 4))),
                         "l"(values + base + q * 4)
                         : "memory");
    } else {
        for (int i = threadIdx.x; i < TILE; i += THREADS)
            held[i / ITEMS * STRIDE + i % ITEMS] = base + i < n ? values[base + i] : 0;
    }
    asm volatile("cp.async.commit_group;" ::: "memory");
    const int2 bound = bounds[blockIdx.x];
    const int low = bound.x, count = bound.y - bound.x + 1;
    const bool local = count <= SLOTS;
    if (local) {
        for (int s = threadIdx.x; s < count; s += THREADS) {
            ends[s] = offsets[low + s + 1];
            slots[s] = 0;
        }
    }
    asm volatile("cp.async.wait_group 0;" ::: "memory");
    __syncthreads();
    int item[ITEMS];
#pragma unroll
    for (int c = 0; c < ITEMS; c += 4) {
        const int4 four = *reinterpret_cast<const int4 *>(held + threadIdx.x * STRIDE + c);
        item[c] = four.x, item[c + 1] = four.y, item[c + 2] = four.z, item[c + 3] = four.w;
    }

    if (first < limit) {
        if (local)
            add_items(item, ends, slots, count, first, limit);
        else
            add_items(item, offsets + low + 1, sums + low, count, first, limit);
    }
    __syncthreads();
    if (local) {
        for (int s = threadIdx.x; s < count; s += THREADS) {
            if (s == 0 || s == count - 1)
                atomicAdd(sums + low + s, slots[s]);
            else
                sums[low + s] = slots[s];
        }
    }
}
