extern "C" __global__ void sum_parts(const int *x, int *sums, int n)
{
    __shared__ int part[8];
    int sum = 0;
    for (int i = blockIdx.x * 256 + threadIdx.x; i < n; i += gridDim.x * 256)
        sum += __ldg(x + i);
    sum = __reduce_add_sync(0xffffffffu, sum);
    if (threadIdx.x % 32 == 0)
        part[threadIdx.x / 32] = sum;
    __syncthreads();
    if (threadIdx.x == 0) {
        sum = __ldg(sums + blockIdx.x);
        for (int warp = 0; warp < 8; warp++)
            sum += part[warp];
        sums[blockIdx.x] = sum;
    }
}
extern "C" __global__ void sum_up(const int *__restrict__ sums, int *result, int n)
{
    __shared__ int part[32];
    int sum = __reduce_add_sync(0xffffffffu, threadIdx.x < min(1024, (n + 255) / 256) ? __ldg(sums + threadIdx.x) : 0);
    if (threadIdx.x % 32 == 0)
        part[threadIdx.x / 32] = sum;
    __syncthreads();
    if (threadIdx.x < 32) {
        sum = __reduce_add_sync(0xffffffffu, part[threadIdx.x]);
        if (threadIdx.x == 0)
            *result = sum;
    }
}
