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
    relax(const int *__restrict__ offsets, const int *__restrict__ targets, const int *__restrict__ weights,
          int *distances, int *queued, const int *__restrict__ queue, const int *__restrict__ count,
          int *__restrict__ next, int *next_count)
{
    __shared__ int stages[WARPS][STAGE];
    const int lane = threadIdx.x % 32;
    const unsigned below = (1u << lane) - 1;
    int *staged = stages[threadIdx.x / 32];
    int found = 0;
    const int total = *count;
    for (int i = (blockIdx.x * THREADS + threadIdx.x) / 32; i < total; i += gridDim.x * WARPS) {
        const int node = queue[i];
        const int distance = __ldcg(distances + node);
        const int end = offsets[node + 1];
        for (int base = offsets[node]; base < end; base += 32) {
            bool fresh = false;
            int target = 0;
            if (base + lane < end) {
                target = targets[base + lane];
                const int through = distance + weights[base + lane];
                if (through < __ldcg(distances + target) && through < atomicMin(distances + target, through))
                    fresh = atomicExch(queued + target, 1) == 0;
            }
            const unsigned winners = __ballot_sync(FULL, fresh);
            if (winners == 0)
                continue;
            if (found + 32 > STAGE) {
                publish(staged, found, next, next_count, lane);
                found = 0;
            }
            if (fresh)
                staged[found + __popc(winners & below)] = target;
            found += __popc(winners);
            __syncwarp();
        }
    }
    if (found > 0)
        publish(staged, found, next, next_count, lane);
}

extern "C" __global__ void __launch_bounds__(THREADS)
    release(int *__restrict__ queued, const int *__restrict__ queue, const int *__restrict__ count)
{
    for (int i = blockIdx.x * THREADS + threadIdx.x; i < *count; i += gridDim.x * THREADS)
        queued[queue[i]] = 0;
}
