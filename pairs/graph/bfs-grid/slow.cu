#define THREADS 256
#define WARPS (THREADS / 32)
#define STAGE 128
#define FULL 0xffffffffu

__device__ __forceinline__ void publish(const int *staged, int found, int *next, int *next_count, int lane)
{
    int start = 0;
    if (lane == 0)
        start = atomicAdd(next_count, found);
    start = __shfl_sync(FULL, start, 0);
    for (int i = lane; i < found; i += 32)
        next[start + i] = staged[i];
    __syncwarp();
}

extern "C" __global__ void __launch_bounds__(THREADS)
    expand(const int *__restrict__ offsets, const int *__restrict__ targets, int *levels,
           const int *__restrict__ queue, const int *__restrict__ count, int *__restrict__ next, int *next_count)
{
    __shared__ int stages[WARPS][STAGE];
    const int lane = threadIdx.x % 32;
    const unsigned below = (1u << lane) - 1;
    int *staged = stages[threadIdx.x / 32];
    int found = 0;
    const int total = *count;
    for (int i = (blockIdx.x * THREADS + threadIdx.x) / 32; i < total; i += gridDim.x * WARPS) {
        const int node = queue[i];
        const int level = levels[node] + 1;
        const int end = offsets[node + 1];
        for (int base = offsets[node]; base < end; base += 32) {
            bool won = false;
            int target = 0;
            if (base + lane < end) {
                target = targets[base + lane];
                won = levels[target] < 0 && atomicCAS(levels + target, -1, level) == -1;
            }
            const unsigned winners = __ballot_sync(FULL, won);
            if (winners == 0)
                continue;
            if (found + 32 > STAGE) {
                publish(staged, found, next, next_count, lane);
                found = 0;
            }
            if (won)
                staged[found + __popc(winners & below)] = target;
            found += __popc(winners);
            __syncwarp();
        }
    }
    if (found > 0)
        publish(staged, found, next, next_count, lane);
}
