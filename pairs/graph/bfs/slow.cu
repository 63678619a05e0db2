extern "C" __global__ void visit(const int *offsets, const int *targets, int *levels, const int *depth, int *changed,
                                 int nodes)
{
    int node = blockIdx.x * blockDim.x + threadIdx.x;
    if (node >= nodes || levels[node] != *depth)
        return;
    for (int edge = offsets[node]; edge < offsets[node + 1]; edge++) {
        int target = targets[edge];
        if (levels[target] < 0) {
            levels[target] = *depth + 1;
            *changed = 1;
        }
    }
}

extern "C" __global__ void deepen(int *depth)
{
    *depth += 1;
}
