extern "C" __global__ void expand(const int *offsets, const int *targets, int *levels, const int *queue,
                                  const int *count, int *next, int *next_count)
{
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < *count; i += gridDim.x * blockDim.x) {
        int node = queue[i];
        int level = levels[node] + 1;
        int end = offsets[node + 1];
        for (int edge = offsets[node]; edge < end; edge++) {
            int target = targets[edge];
            if (levels[target] < 0 && atomicCAS(&levels[target], -1, level) == -1)
                next[atomicAdd(next_count, 1)] = target;
        }
    }
}
