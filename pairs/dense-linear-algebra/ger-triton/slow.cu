extern "C" __global__ void ger(float *a, const float *x, const float *y, int m, int n, float alpha)
{
    int row = blockIdx.x * blockDim.x + threadIdx.x;
    int col = blockIdx.y * blockDim.y + threadIdx.y;
    if (row < m && col < n)
        a[row * n + col] += alpha * x[row] * y[col];
}
