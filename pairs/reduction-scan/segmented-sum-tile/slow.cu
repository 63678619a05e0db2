extern "C" __global__ void segmented_sum(const int *offsets, const int *values, int *sums, int segments)
{
    int segment = (blockIdx.x * blockDim.x + threadIdx.x) / 32;
    int lane = threadIdx.x % 32;
    if (segment >= segments)
        return;
    int end = offsets[segment + 1];
    int sum = 0;
    for (int i = offsets[segment] + lane; i < end; i += 32)
        sum += values[i];
    for (int distance = 16; distance > 0; distance /= 2)
        sum += __shfl_down_sync(0xffffffffu, sum, distance);
    if (lane == 0)
        sums[segment] = sum;
}
