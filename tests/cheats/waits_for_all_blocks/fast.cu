extern "C" __global__ void sum_up(const int *x, int *result, int *sums, unsigned *arrived, int n)
{
    __shared__ int total;
    if (threadIdx.x == 0)
        total = 0;
    __syncthreads();
    int sum = 0;
    for (int i = blockIdx.x * 256 + threadIdx.x; i < n; i += gridDim.x * 256)
        sum += x[i];
    atomicAdd(&total, sum);
    __syncthreads();
    if (threadIdx.x == 0) {
        sums[blockIdx.x] = total;
        __threadfence();
        atomicAdd(arrived, 1u);
        while (atomicAdd(arrived, 0u) < gridDim.x)
            ;
        __threadfence();
    }
    __syncthreads();
    if (blockIdx.x != 0)
        return;
    if (threadIdx.x == 0) {
        sum = 0;
        for (int i = 0; i < gridDim.x; i++)
            sum += __ldcg(sums + i);
        *result = sum;
    }
}
