extern "C" __global__ void residual(const int *offsets, const int *columns, const float *values, const float *x,
                                    const float *b, float *r, int rows)
{
    int row = blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= rows)
        return;
    float sum = b[row];
    for (int i = offsets[row]; i < offsets[row + 1]; i++)
        sum -= values[i] * x[columns[i]];
    r[row] = sum;
}

extern "C" __global__ void update(float *x, const float *r, const float *d, int rows, float omega)
{
    int row = blockIdx.x * blockDim.x + threadIdx.x;
    if (row < rows)
        x[row] += omega * r[row] / d[row];
}
