#define THREADS 256
#define FULL 0xffffffffu

__device__ __forceinline__ bool contains(const int *__restrict__ targets, int low, int high, int wanted)
{
    while (low < high) {
        const int middle = (low + high) / 2;
        if (targets[middle] < wanted)
            low = middle + 1;
        else
            high = middle;
    }
    return targets[low] == wanted;
}

extern "C" __global__ void __launch_bounds__(THREADS)
    count_triangles(const int *__restrict__ offsets, const int *__restrict__ targets,
                    unsigned long long *__restrict__ triangles, int nodes, int edges)
{
    __shared__ int part[THREADS / 32];
    const int lane = threadIdx.x % 32;
    const int edge = blockIdx.x * THREADS + threadIdx.x;
    int short_begin = 0, short_end = 0, long_begin = 0, long_end = 0;
    if (edge < edges) {
        int low = 0, high = nodes - 1;
        while (low < high) {
            const int middle = (low + high + 1) / 2;
            if (offsets[middle] <= edge)
                low = middle;
            else
                high = middle - 1;
        }
        const int middle = targets[edge];
        short_begin = offsets[low];
        short_end = offsets[low + 1];
        long_begin = offsets[middle];
        long_end = offsets[middle + 1];
        if (short_end - short_begin > long_end - long_begin) {
            const int begin = short_begin, end = short_end;
            short_begin = long_begin;
            short_end = long_end;
            long_begin = begin;
            long_end = end;
        }
    }
    int found = 0;
    for (int turn = 0; turn < 32; turn++) {
        const int begin = __shfl_sync(FULL, short_begin, turn), end = __shfl_sync(FULL, short_end, turn);
        const int other = __shfl_sync(FULL, long_begin, turn), last = __shfl_sync(FULL, long_end, turn) - 1;
        for (int i = begin + lane; i < end; i += 32)
            found += contains(targets, other, last, targets[i]);
    }
    found = __reduce_add_sync(FULL, found);
    if (lane == 0)
        part[threadIdx.x / 32] = found;
    __syncthreads();
    if (threadIdx.x == 0) {
        unsigned long long total = 0;
        for (int w = 0; w < THREADS / 32; w++)
            total += part[w];
        if (total > 0)
            atomicAdd(triangles, total);
    }
}
