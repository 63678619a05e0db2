#define TILE 32

extern "C" __global__ void __launch_bounds__(TILE *TILE)
    sgemm(const float *__restrict__ a, const float *__restrict__ b, float *__restrict__ c, int m, int n, int k)
{
    __shared__ float left[TILE][TILE];
    __shared__ float right[TILE][TILE];
    const int x = threadIdx.x, y = threadIdx.y;
    const int col = blockIdx.x * TILE + x;
    const int row = blockIdx.y * TILE + y;
    float sum = 0.0f;
    for (int base = 0; base < k; base += TILE) {
        left[y][x] = row < m && base + x < k ? a[row * k + base + x] : 0.0f;
        right[y][x] = col < n && base + y < k ? b[(base + y) * n + col] : 0.0f;
        __syncthreads();
#pragma unroll
        for (int i = 0; i < TILE; i++)
            sum = fmaf(left[y][i], right[i][x], sum);
        __syncthreads();
    }
    if (row < m && col < n)
        c[row * n + col] = sum;
}
