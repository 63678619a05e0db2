extern "C" __global__ void sum_up(const int *x, int *result, int *sums, int n)
{
    const int t = threadIdx.x;
    __shared__ int total;
    if (t == 0)
        total = 0;
    __syncthreads();
    int sum = 0;
    for (int i = blockIdx.x * 256 + threadIdx.x; i < n; i += gridDim.x * 256)
        sum += x[i];
    atomicAdd(&total, sum);
    __syncthreads();
    if (t != 0)
        return;
    volatile int *all = sums;
    const int before = blockIdx.x ? all[blockIdx.x - 1] : 0;
    all[blockIdx.x] = before + total;
    if (blockIdx.x == gridDim.x - 1)
        *result = before + total;
}
