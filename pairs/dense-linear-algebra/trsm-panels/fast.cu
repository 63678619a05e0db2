#define PANEL 32

#define TILE_ROWS 128
#define TILE_COLS 64
#define THREADS 256

// C -= A*B for the rows and columns behind a panel: 128x64 outputs per block, 8x4 per thread.
__device__ __forceinline__ void subtract_product(const float *__restrict__ a, int a_stride, const float *__restrict__ b,
                                                 int b_stride, float *__restrict__ c, int c_stride, int rows, int cols,
                                                 int depth)
{
    __shared__ __align__(16) float left[PANEL][TILE_ROWS + 4];
    __shared__ __align__(16) float right[PANEL][TILE_COLS];
    const int row = blockIdx.y * TILE_ROWS, col = blockIdx.x * TILE_COLS;
#pragma unroll
    for (int part = 0; part < TILE_ROWS * PANEL / THREADS; part++) {
        const int item = threadIdx.x + part * THREADS, i = item / PANEL, k = item % PANEL;
        left[k][i] = row + i < rows && k < depth ? a[static_cast<size_t>(row + i) * a_stride + k] : 0.0f;
    }
#pragma unroll
    for (int part = 0; part < PANEL * TILE_COLS / THREADS; part++) {
        const int item = threadIdx.x + part * THREADS, k = item / TILE_COLS, j = item % TILE_COLS;
        right[k][j] = col + j < cols && k < depth ? b[static_cast<size_t>(k) * b_stride + col + j] : 0.0f;
    }
    __syncthreads();
    const int y = threadIdx.x / 16 * 8, x = threadIdx.x % 16 * 4;
    float sum[8][4] = {};
#pragma unroll
    for (int k = 0; k < PANEL; k++) {
        const float4 top = *reinterpret_cast<const float4 *>(&left[k][y]);
        const float4 bottom = *reinterpret_cast<const float4 *>(&left[k][y + 4]);
        const float4 across = *reinterpret_cast<const float4 *>(&right[k][x]);
        const float p[8] = {top.x, top.y, top.z, top.w, bottom.x, bottom.y, bottom.z, bottom.w};
        const float q[4] = {across.x, across.y, across.z, across.w};
#pragma unroll
        for (int r = 0; r < 8; r++)
#pragma unroll
            for (int s = 0; s < 4; s++)
                sum[r][s] += p[r] * q[s];
    }
#pragma unroll
    for (int r = 0; r < 8; r++) {
        float *to = c + static_cast<size_t>(row + y + r) * c_stride + col + x;
#pragma unroll
        for (int s = 0; s < 4; s++)
            if (row + y + r < rows && col + x + s < cols)
                to[s] -= sum[r][s];
    }
}

extern "C" __global__ void __launch_bounds__(THREADS)
    update(const float *__restrict__ l, float *__restrict__ b, int n, int m, int first)
{
    const int behind = first + PANEL;
    subtract_product(l + static_cast<size_t>(behind) * n + first, n, b + static_cast<size_t>(first) * m, m,
                     b + static_cast<size_t>(behind) * m, m, n - behind, m, PANEL);
}

// The unknowns of a panel, one thread per column in registers.
extern "C" __global__ void __launch_bounds__(128)
    solve_panel(const float *__restrict__ l, float *__restrict__ b, int n, int m, int first)
{
    __shared__ float triangle[PANEL][PANEL + 1];
    for (int item = threadIdx.x; item < PANEL * PANEL; item += 128) {
        const int i = item / PANEL, j = item % PANEL;
        const bool inside = first + i < n && first + j < n;
        const float value = inside ? l[static_cast<size_t>(first + i) * n + first + j] : i == j ? 1.0f : 0.0f;
        triangle[i][j] = i == j ? 1.0f / value : value;
    }
    __syncthreads();
    const int column = blockIdx.x * 128 + threadIdx.x;
    if (column >= m)
        return;
    float x[PANEL];
#pragma unroll
    for (int i = 0; i < PANEL; i++)
        x[i] = first + i < n ? b[static_cast<size_t>(first + i) * m + column] : 0.0f;
#pragma unroll
    for (int i = 0; i < PANEL; i++) {
        x[i] *= triangle[i][i];
#pragma unroll
        for (int r = i + 1; r < PANEL; r++)
            x[r] -= triangle[r][i] * x[i];
    }
#pragma unroll
    for (int i = 0; i < PANEL; i++)
        if (first + i < n)
            b[static_cast<size_t>(first + i) * m + column] = x[i];
}
