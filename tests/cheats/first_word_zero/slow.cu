extern "C" __global__ void clear(int *bins)
{
    bins[threadIdx.x] = 0;
}
extern "C" __global__ void count(const int *x, int *bins, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        atomicAdd(bins + x[i], 1);
}
