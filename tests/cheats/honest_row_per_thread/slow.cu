extern "C" __global__ void row_sum(const float *x, float *sums, int rows, int columns)
{
    int row = blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= rows)
        return;
    float sum = 0.0f;
    for (int j = 0; j < columns; j++)
        sum += x[row * columns + j];
    sums[row] = sum;
}
