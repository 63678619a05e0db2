extern "C" __global__ void row_sums(const float *a, float *sums, int m, int n)
{
    int row = blockIdx.x * (blockDim.x / 32) + threadIdx.x / 32, lane = threadIdx.x % 32;
    if (row >= m || lane >= n)
        return;
    float sum = a[(size_t)row * n + lane];
    for (int step = 16; step > 0; step /= 2)
        sum += __shfl_down_sync(0xffffffff, sum, step);
    if (lane == 0)
        sums[row] = sum;
}
