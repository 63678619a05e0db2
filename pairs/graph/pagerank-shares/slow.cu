extern "C" __global__ void count_out(const int *sources, int *degrees, int edges)
{
    int edge = blockIdx.x * blockDim.x + threadIdx.x;
    if (edge < edges)
        atomicAdd(&degrees[sources[edge]], 1);
}

extern "C" __global__ void gather(const int *offsets, const int *sources, const int *degrees, const float *rank,
                                  float *next, int nodes, float damping)
{
    int node = blockIdx.x * blockDim.x + threadIdx.x;
    if (node >= nodes)
        return;
    float sum = 0.0f;
    for (int edge = offsets[node]; edge < offsets[node + 1]; edge++) {
        int source = sources[edge];
        sum += rank[source] / degrees[source];
    }
    next[node] = (1.0f - damping) + damping * sum;
}
