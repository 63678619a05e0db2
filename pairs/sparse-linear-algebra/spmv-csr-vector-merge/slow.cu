extern "C" __global__ void spmv(const int *__restrict__ offsets, const int *__restrict__ columns,
                                const float *__restrict__ values, const float *__restrict__ x, float *__restrict__ y,
                                int rows)
{
    const int lane = threadIdx.x % 32;
    const int row = (blockIdx.x * blockDim.x + threadIdx.x) / 32;
    if (row >= rows)
        return;
    const int end = offsets[row + 1];
    float sum = 0.0f;
    for (int i = offsets[row] + lane; i < end; i += 32)
        sum = fmaf(values[i], x[columns[i]], sum);
    for (int offset = 16; offset > 0; offset /= 2)
        sum += __shfl_down_sync(0xffffffffu, sum, offset);
    if (lane == 0)
        y[row] = sum;
}
