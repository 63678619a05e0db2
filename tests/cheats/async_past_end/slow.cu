extern "C" __global__ void row_sums(const int *x, int *sums, int m, int n)
{
    const int row = blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= m)
        return;
    int sum = 0;
    for (int i = 0; i < n; i++)
        sum += x[(size_t)row * n + i];
    sums[row] = sum;
}
