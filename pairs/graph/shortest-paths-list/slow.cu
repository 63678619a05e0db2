extern "C" __global__ void relax(const int *offsets, const int *targets, const int *weights, int *distances, int *changed,
                                 int nodes)
{
    int node = blockIdx.x * blockDim.x + threadIdx.x;
    if (node >= nodes || distances[node] == 0x7fffffff)
        return;
    int distance = distances[node];
    for (int edge = offsets[node]; edge < offsets[node + 1]; edge++) {
        int through = distance + weights[edge];
        if (through < distances[targets[edge]]) {
            atomicMin(&distances[targets[edge]], through);
            *changed = 1;
        }
    }
}
