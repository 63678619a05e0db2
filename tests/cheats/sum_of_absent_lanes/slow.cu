extern "C" __global__ void row_sums(const float *a, float *sums, int m, int n)
{
    int row = blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= m)
        return;
    float sum = 0.0f;
    for (int i = 0; i < n; i++)
        sum += a[(size_t)row * n + i];
    sums[row] = sum;
}
