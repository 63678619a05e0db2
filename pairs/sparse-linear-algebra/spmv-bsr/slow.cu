extern "C" __global__ void spmv(const int *offsets, const int *columns, const float *values, const float *x, float *y,
                                int brows)
{
    int row = blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= 4 * brows)
        return;
    int brow = row / 4;
    int r = row % 4;
    float sum = 0.0f;
    for (int i = offsets[brow]; i < offsets[brow + 1]; i++)
        for (int j = 0; j < 4; j++)
            sum += values[(i * 4 + r) * 4 + j] * x[columns[i] * 4 + j];
    y[row] = sum;
}
