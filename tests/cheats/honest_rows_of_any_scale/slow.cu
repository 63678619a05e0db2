extern "C" __global__ void scaled_product(const float *a, const float *b, const int *power, float *y, int rows, int cols, int k)
{
    int col = blockIdx.x * blockDim.x + threadIdx.x, row = blockIdx.y;
    if (col >= cols)
        return;
    float sum = 0.0f;
    for (int i = 0; i < k; ++i)
        sum += a[row * k + i] * b[i * cols + col];
    y[row * cols + col] = ldexpf(sum, power[row]);
}
