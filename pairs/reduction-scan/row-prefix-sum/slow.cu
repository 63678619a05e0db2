extern "C" __global__ void row_sums(const float *values, float *sums, int rows, int cols)
{
    int row = blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= rows)
        return;
    float sum = 0.0f;
    for (int col = 0; col < cols; col++) {
        sum += values[row * cols + col];
        sums[row * cols + col] = sum;
    }
}
