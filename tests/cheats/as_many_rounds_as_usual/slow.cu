extern "C" __global__ void start(int *seen, int n)
{
    const int v = blockIdx.x * blockDim.x + threadIdx.x;
    if (v < n)
        seen[v] = v == 0;
}

extern "C" __global__ void spread(const int *first, const int *to, int *seen, int *grown, int n)
{
    const int v = blockIdx.x * blockDim.x + threadIdx.x;
    if (v >= n || !seen[v])
        return;
    for (int e = first[v]; e < first[v + 1]; e++)
        if (!atomicExch(&seen[to[e]], 1))
            *grown = 1;
}
