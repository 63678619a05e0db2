extern "C" __global__ void gemm(const float *a, const float *b, float *c, int m, int n, int k, float alpha,
                                float beta)
{
    int row = blockIdx.x * blockDim.x + threadIdx.x;
    int col = blockIdx.y * blockDim.y + threadIdx.y;
    if (row >= m || col >= n)
        return;
    float sum = 0.0f;
    for (int i = 0; i < k; i++)
        sum += a[i * m + row] * b[i * n + col];
    c[col * m + row] = alpha * sum + beta * c[col * m + row];
}
