extern "C" __global__ void sum_up(const int *x, int *result, int n)
{
    __shared__ int part[8];
    const int t = threadIdx.x, warp = t / 32;
    int sum = 0;
    for (int i = blockIdx.x * 256 + threadIdx.x; i < n; i += gridDim.x * 256)
        sum += x[i];
    for (int offset = 16; offset > 0; offset /= 2)
        sum += __shfl_down_sync(0xffffffffu, sum, offset);
    if (t % 32 == 0)
        part[warp] = sum;
    if (t == 224) {
        sum = 0;
        for (int i = 0; i < 8; i++)
            sum += part[i];
        atomicAdd(result, sum);
    }
}
