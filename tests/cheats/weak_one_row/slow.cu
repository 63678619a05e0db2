extern "C" __global__ void row_sum(const float *a, float *out, int rows, int cols)
{
    int row = blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= rows)
        return;
    float sum = 0.0f;
    for (int j = 0; j < cols; j++)
        sum += a[(long long)row * cols + j];
    out[row] = sum;
}
