extern "C" __global__ void column_maxima(const int *x, int *best, int m, int n)
{
    int col = blockIdx.x * 32 + threadIdx.x;
    int most = 0;
    for (int row = blockIdx.y * 8 + threadIdx.y; row < m && col < n; row += gridDim.y * 8)
        most = max(most, x[(size_t)row * n + col]);
    __shared__ int part[8][32];
    part[threadIdx.y][threadIdx.x] = most;
    __syncthreads();
    if (threadIdx.y != 0 || col >= n)
        return;
    for (int row = 1; row < 8; row++)
        most = max(most, part[row][threadIdx.x]);
    atomicMax(best + col, most);
}
