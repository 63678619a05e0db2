#define THREADS 128
#define ROWS 2
#define COLS 16
#define DEPTH 16

extern "C" __global__ void __launch_bounds__(THREADS)
    gemm(const float *__restrict__ a, const float *__restrict__ b, float *__restrict__ c, int m, int n, int k,
         float alpha, float beta)
{
    __shared__ __align__(16) float panel[DEPTH][COLS];
    const int row = blockIdx.x * (THREADS * ROWS) + threadIdx.x;
    const int first = blockIdx.y * COLS;
    float sum[ROWS][COLS] = {};

    for (int base = 0; base < k; base += DEPTH) {
        for (int item = threadIdx.x; item < DEPTH * COLS; item += THREADS) {
            int i = item / COLS, j = item % COLS;
            bool inside = base + i < k && first + j < n;
            panel[i][j] = inside ? b[(base + i) * n + first + j] : 0.0f;
        }
        float column[ROWS][DEPTH];
#pragma unroll
        for (int i = 0; i < DEPTH; i++)
#pragma unroll
            for (int r = 0; r < ROWS; r++) {
                int at = row + r * THREADS;
                column[r][i] = at < m && base + i < k ? a[(base + i) * m + at] : 0.0f;
            }
        __syncthreads();
#pragma unroll
        for (int i = 0; i < DEPTH; i++)
#pragma unroll
            for (int j = 0; j < COLS; j += 4) {
                float4 value = *reinterpret_cast<const float4 *>(&panel[i][j]);
#pragma unroll
                for (int r = 0; r < ROWS; r++) {
                    sum[r][j] = fmaf(column[r][i], value.x, sum[r][j]);
                    sum[r][j + 1] = fmaf(column[r][i], value.y, sum[r][j + 1]);
                    sum[r][j + 2] = fmaf(column[r][i], value.z, sum[r][j + 2]);
                    sum[r][j + 3] = fmaf(column[r][i], value.w, sum[r][j + 3]);
                }
            }
        __syncthreads();
    }
#pragma unroll
    for (int r = 0; r < ROWS; r++) {
        int at = row + r * THREADS;
#pragma unroll
        for (int j = 0; j < COLS; j++)
            if (at < m && first + j < n) {
                int place = (first + j) * m + at;
                c[place] = alpha * sum[r][j] + beta * c[place];
            }
    }
}
