extern "C" __global__ void spmm(const int *offsets, const int *columns, const float *values, const float *b, float *c,
                                int rows, int n)
{
    int row = blockIdx.x * blockDim.x + threadIdx.x;
    int col = blockIdx.y * blockDim.y + threadIdx.y;
    if (row >= rows || col >= n)
        return;
    float sum = 0.0f;
    for (int i = offsets[row]; i < offsets[row + 1]; i++)
        sum += values[i] * b[columns[i] * n + col];
    c[row * n + col] = sum;
}
