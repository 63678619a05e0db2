extern "C" __global__ void sum_up(const int *x, int *result, volatile int *sums, volatile int *flag, int *started, int n)
{
    const int t = threadIdx.x;
    __shared__ int total, tile;
    if (t == 0) {
        tile = atomicAdd(started, 1);
        total = 0;
    }
    __syncthreads();
    int sum = 0;
    for (int i = tile * 256 + t; i < n; i += gridDim.x * 256)
        sum += x[i];
    atomicAdd(&total, sum);
    __syncthreads();
    if (t != 0)
        return;
    int before = 0;
    if (tile > 0) {
        while (flag[tile - 1] == 0)
            ;
        __threadfence();
        before = sums[tile - 1];
    }
    sums[tile] = before + total;
    __threadfence();
    flag[tile] = 1;
    if (tile == gridDim.x - 1)
        *result = before + total;
}
