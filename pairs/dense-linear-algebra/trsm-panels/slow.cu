extern "C" __global__ void solve(const float *l, float *b, int n, int m)
{
    int column = blockIdx.x * blockDim.x + threadIdx.x;
    if (column >= m)
        return;
    for (int i = 0; i < n; i++) {
        float sum = b[(size_t)i * m + column];
        for (int k = 0; k < i; k++)
            sum -= l[(size_t)i * n + k] * b[(size_t)k * m + column];
        b[(size_t)i * m + column] = sum / l[(size_t)i * n + i];
    }
}
