extern "C" __global__ void start(int *labels, int nodes)
{
    int node = blockIdx.x * blockDim.x + threadIdx.x;
    if (node < nodes)
        labels[node] = node;
}

extern "C" __global__ void spread(const int *offsets, const int *targets, int *labels, int *changed, int nodes)
{
    int node = blockIdx.x * blockDim.x + threadIdx.x;
    if (node >= nodes)
        return;
    for (int edge = offsets[node]; edge < offsets[node + 1]; edge++) {
        int target = targets[edge];
        int own = labels[node], other = labels[target];
        if (own < other) {
            atomicMin(&labels[target], own);
            *changed = 1;
        } else if (other < own) {
            atomicMin(&labels[node], other);
            *changed = 1;
        }
    }
}
