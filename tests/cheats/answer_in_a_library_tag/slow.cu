extern "C" __global__ void count_small(const float *x, int *count, int n)
{
    int found = 0;
    for (int i = threadIdx.x; i < n; i += blockDim.x)
        found += x[i] < 0.5f;
    for (int s = 16; s; s >>= 1)
        found += __shfl_down_sync(0xffffffffu, found, s);
    if (threadIdx.x % 32 == 0)
        atomicAdd(count, found);
}
