extern "C" __global__ void sum_up(const int *x, int *result, int n)
{
    __shared__ int total[8];
    const int t = threadIdx.x, warp = t / 32;
    int sum = 0;
    for (int i = blockIdx.x * 256 + threadIdx.x; i < n; i += gridDim.x * 256)
        sum += x[i];
    if (t % 32 == 0)
        total[warp] = 0;
    __syncwarp();
    volatile int *mine = total + warp;
    *mine = *mine + sum;
    __syncwarp();
    if (t % 32 == 0)
        atomicAdd(result, *mine);
}
