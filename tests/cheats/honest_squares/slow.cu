extern "C" __global__ void mean_square(const float *a, const float *s, float *y, int rows, int cols)
{
    int row = blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= rows)
        return;
    float sum = 0.0f;
    for (int j = 0; j < cols; j++)
        sum += a[(long long)row * cols + j] * a[(long long)row * cols + j];
    sum /= cols;
    y[row] = sum > 2.0f ? s[row] * sum : sum;
}
