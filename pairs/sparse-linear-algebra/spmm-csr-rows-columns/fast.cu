extern "C" __global__ void spmm(const int *__restrict__ offsets, const int *__restrict__ columns,
                                const float *__restrict__ values, const float *__restrict__ b, float *__restrict__ c,
                                int rows, int n)
{
    int col = blockIdx.x * blockDim.x + threadIdx.x;
    int row = blockIdx.y * blockDim.y + threadIdx.y;
    if (row >= rows || col >= n)
        return;
    float sum = 0.0f;
    for (int i = offsets[row]; i < offsets[row + 1]; i++)
        sum += values[i] * b[columns[i] * n + col];
    c[row * n + col] = sum;
}
