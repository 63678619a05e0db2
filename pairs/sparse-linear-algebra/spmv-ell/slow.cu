extern "C" __global__ void spmv(const int *lengths, const int *columns, const float *values, const float *x, float *y,
                                int rows, int width)
{
    int row = blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= rows)
        return;
    float sum = 0.0f;
    for (int j = 0; j < lengths[row]; j++)
        sum += values[(size_t)row * width + j] * x[columns[(size_t)row * width + j]];
    y[row] = sum;
}
