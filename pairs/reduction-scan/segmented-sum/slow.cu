extern "C" __global__ void segmented_sum(const int *offsets, const int *values, int *sums, int segments)
{
    int segment = blockIdx.x * blockDim.x + threadIdx.x;
    if (segment >= segments)
        return;
    int sum = 0;
    for (int i = offsets[segment]; i < offsets[segment + 1]; i++)
        sum += values[i];
    sums[segment] = sum;
}
