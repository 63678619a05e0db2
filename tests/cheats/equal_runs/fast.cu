
extern "C" __global__ void sums_by_key(const int *value, int *sums, int keys)
{
    int warp = (blockIdx.x * blockDim.x + threadIdx.x) / 32, lane = threadIdx.x % 32;
    if (warp >= keys)
        return;
    int sum = value[warp * 64 + lane] + value[warp * 64 + 32 + lane];
    for (int step = 16; step; step >>= 1)
        sum += __shfl_down_sync(0xffffffffu, sum, step);
    if (lane == 0)
        sums[warp] = sum;
}
