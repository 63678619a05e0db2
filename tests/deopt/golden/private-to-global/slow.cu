#define BINS 16

extern "C" __global__ void work(const int *keys, int *counts, int n)
{
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
        atomicAdd(&counts[keys[i]], 1);
}
