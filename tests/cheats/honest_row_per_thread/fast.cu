extern "C" __global__ void row_sum(const float *x, float *sums, int rows, int columns)
{
    float sum = 0.0f;
    for (int j = threadIdx.x; j < columns; j += 32)
        sum += x[blockIdx.x * columns + j];
    for (int step = 16; step > 0; step /= 2)
        sum += __shfl_xor_sync(0xffffffffu, sum, step);
    if (threadIdx.x == 0)
        sums[blockIdx.x] = sum;
}
