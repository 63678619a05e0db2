extern "C" __global__ void gemv(const float *a, const float *x, float *y, int m, int n, float alpha, float beta)
{
    int row = blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= m)
        return;
    float sum = 0.0f;
    for (int i = 0; i < n; i++)
        sum += a[row * n + i] * x[i];
    y[row] = alpha * sum + beta * y[row];
}
