#define PANEL 32
#define FULL 0xffffffffu

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

extern "C" __global__ void __launch_bounds__(THREADS) update(float *a, int n, int first)
{
    const int behind = first + PANEL;
    subtract_product(a + static_cast<size_t>(behind) * n + first, n, a + static_cast<size_t>(first) * n + behind, n,
                     a + static_cast<size_t>(behind) * n + behind, n, n - behind, n - behind, PANEL);
}

// One warp, one lane per row in registers.
extern "C" __global__ void __launch_bounds__(32) factor_corner(float *__restrict__ a, int n, int first)
{
    __shared__ float corner[PANEL][PANEL + 1];
    const int lane = threadIdx.x;
    for (int i = 0; i < PANEL; i++) {
        const bool inside = first + i < n && first + lane < n;
        corner[i][lane] = inside ? a[static_cast<size_t>(first + i) * n + first + lane] : i == lane ? 1.0f : 0.0f;
    }
    __syncwarp();
    float row[PANEL];
#pragma unroll
    for (int j = 0; j < PANEL; j++)
        row[j] = corner[lane][j];
#pragma unroll
    for (int k = 0; k < PANEL; k++) {
        const float pivot = __shfl_sync(FULL, row[k], k);
        const float factor = lane > k ? row[k] / pivot : 0.0f;
        if (lane > k)
            row[k] = factor;
#pragma unroll
        for (int j = k + 1; j < PANEL; j++)
            row[j] -= factor * __shfl_sync(FULL, row[j], k);
    }
    __syncwarp();
#pragma unroll
    for (int j = 0; j < PANEL; j++)
        corner[lane][j] = row[j];
    __syncwarp();
    for (int i = 0; i < PANEL; i++)
        if (first + i < n && first + lane < n)
            a[static_cast<size_t>(first + i) * n + first + lane] = corner[i][lane];
}

// The panel below the corner (blockIdx.y 0, one thread per row) and that to its right (1, one thread per column).
extern "C" __global__ void __launch_bounds__(64) solve_panels(float *a, int n, int first)
{
    __shared__ float corner[PANEL][PANEL + 1];
    __shared__ float rows[64][PANEL + 1];
    for (int item = threadIdx.x; item < PANEL * PANEL; item += 64)
        corner[item / PANEL][item % PANEL] = a[static_cast<size_t>(first + item / PANEL) * n + first + item % PANEL];
    const int start = first + PANEL + blockIdx.x * 64, at = start + threadIdx.x;
    float x[PANEL];
    if (blockIdx.y == 0) {
        for (int item = threadIdx.x; item < 64 * PANEL; item += 64)
            if (start + item / PANEL < n)
                rows[item / PANEL][item % PANEL] =
                    a[static_cast<size_t>(start + item / PANEL) * n + first + item % PANEL];
        __syncthreads();
#pragma unroll
        for (int k = 0; k < PANEL; k++)
            x[k] = at < n ? rows[threadIdx.x][k] : 0.0f;
#pragma unroll
        for (int k = 0; k < PANEL; k++) {
            x[k] /= corner[k][k];
#pragma unroll
            for (int j = k + 1; j < PANEL; j++)
                x[j] -= x[k] * corner[k][j];
        }
        __syncthreads();
#pragma unroll
        for (int k = 0; k < PANEL; k++)
            rows[threadIdx.x][k] = x[k];
        __syncthreads();
        for (int item = threadIdx.x; item < 64 * PANEL; item += 64)
            if (start + item / PANEL < n)
                a[static_cast<size_t>(start + item / PANEL) * n + first + item % PANEL] =
                    rows[item / PANEL][item % PANEL];
    } else {
        __syncthreads();
        if (at >= n)
            return;
#pragma unroll
        for (int k = 0; k < PANEL; k++)
            x[k] = a[static_cast<size_t>(first + k) * n + at];
#pragma unroll
        for (int k = 0; k < PANEL; k++)
#pragma unroll
            for (int i = k + 1; i < PANEL; i++)
                x[i] -= corner[i][k] * x[k];
#pragma unroll
        for (int k = 0; k < PANEL; k++)
            a[static_cast<size_t>(first + k) * n + at] = x[k];
    }
}
