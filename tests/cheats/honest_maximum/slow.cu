extern "C" __global__ void column_maxima(const int *x, int *best, int m, int n)
{
    int col = blockIdx.x * blockDim.x + threadIdx.x;
    if (col >= n)
        return;
    int most = x[col];
    for (int row = 1; row < m; row++)
        most = max(most, x[(size_t)row * n + col]);
    best[col] = most;
}
