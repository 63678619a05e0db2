#include <cuda_pipeline.h>

#define THREADS 256
#define ROWS 128
#define COLS 128
#define DEPTH 16
#define PITCH (ROWS + 4)

__device__ __forceinline__ float4 fetch(const float *__restrict__ a, int row, int i, int m, int k)
{
    float4 value = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
    if (row >= m || i >= k)
        return value;
    const float *from = a + row * k + i;
    if (k % 4 == 0)
        return *reinterpret_cast<const float4 *>(from);
    value.x = from[0];
    value.y = i + 1 < k ? from[1] : 0.0f;
    value.z = i + 2 < k ? from[2] : 0.0f;
    value.w = i + 3 < k ? from[3] : 0.0f;
    return value;
}

__device__ __forceinline__ void fetch_left(float4 *held, const float *__restrict__ a, int first, int base, int m,
                                           int k)
{
#pragma unroll
    for (int part = 0; part < 2; part++) {
        const int item = threadIdx.x + part * THREADS;
        held[part] = fetch(a, first + item / 4, base + item % 4 * 4, m, k);
    }
}

__device__ __forceinline__ void store_left(float (*left)[PITCH], const float4 *held)
{
#pragma unroll
    for (int part = 0; part < 2; part++) {
        const int item = threadIdx.x + part * THREADS;
        const int row = item / 4, i = item % 4 * 4;
        left[i][row] = held[part].x;
        left[i + 1][row] = held[part].y;
        left[i + 2][row] = held[part].z;
        left[i + 3][row] = held[part].w;
    }
}

__device__ __forceinline__ void copy_right(float (*right)[COLS], const float *__restrict__ b, int first, int base,
                                           int n, int k)
{
#pragma unroll
    for (int part = 0; part < 2; part++) {
        const int item = threadIdx.x + part * THREADS;
        const int i = item / (COLS / 4), col = item % (COLS / 4) * 4;
        if (n % 4 == 0) {
            const bool inside = base + i < k && first + col < n;
            const float *from = inside ? b + (base + i) * n + first + col : b;
            __pipeline_memcpy_async(&right[i][col], from, 16, inside ? 0 : 16);
        } else {
#pragma unroll
            for (int j = 0; j < 4; j++) {
                const bool inside = base + i < k && first + col + j < n;
                const float *from = inside ? b + (base + i) * n + first + col + j : b;
                __pipeline_memcpy_async(&right[i][col + j], from, 4, inside ? 0 : 4);
            }
        }
    }
    __pipeline_commit();
}

__device__ __forceinline__ void multiply(float (*sum)[8], const float (*left)[PITCH], const float (*right)[COLS],
                                         int y, int x)
{
#pragma unroll
    for (int i = 0; i < DEPTH; i++) {
        float p[8], q[8];
        *reinterpret_cast<float4 *>(p) = *reinterpret_cast<const float4 *>(&left[i][y]);
        *reinterpret_cast<float4 *>(p + 4) = *reinterpret_cast<const float4 *>(&left[i][y + ROWS / 2]);
        *reinterpret_cast<float4 *>(q) = *reinterpret_cast<const float4 *>(&right[i][x]);
        *reinterpret_cast<float4 *>(q + 4) = *reinterpret_cast<const float4 *>(&right[i][x + COLS / 2]);
#pragma unroll
        for (int r = 0; r < 8; r++)
#pragma unroll
            for (int s = 0; s < 8; s++)
                sum[r][s] = fmaf(p[r], q[s], sum[r][s]);
    }
}

extern "C" __global__ void __launch_bounds__(THREADS, 2)
    sgemm(const float *__restrict__ a, const float *__restrict__ b, float *__restrict__ c, int m, int n, int k)
{
    __shared__ __align__(16) float left[2][DEPTH][PITCH];
    __shared__ __align__(16) float right[2][DEPTH][COLS];
    const int row = blockIdx.y * ROWS, col = blockIdx.x * COLS;
    const int y = threadIdx.x / 16 * 4, x = threadIdx.x % 16 * 4;
    float sum[8][8] = {};
    float4 held[2];

    fetch_left(held, a, row, 0, m, k);
    copy_right(right[0], b, col, 0, n, k);
    store_left(left[0], held);
    __pipeline_wait_prior(0);
    __syncthreads();

    int stage = 0;
    for (int base = 0; base < k; base += DEPTH) {
        const bool more = base + DEPTH < k;
        if (more) {
            fetch_left(held, a, row, base + DEPTH, m, k);
            copy_right(right[stage ^ 1], b, col, base + DEPTH, n, k);
        }
        multiply(sum, left[stage], right[stage], y, x);
        if (more) {
            store_left(left[stage ^ 1], held);
            __pipeline_wait_prior(0);
        }
        __syncthreads();
        stage ^= 1;
    }

#pragma unroll
    for (int r = 0; r < 8; r++) {
        const int at = row + y + r % 4 + r / 4 * (ROWS / 2);
#pragma unroll
        for (int s = 0; s < 8; s += 4) {
            const int first = col + x + s * (COLS / 8);
            if (at >= m || first >= n)
                continue;
            float *to = c + at * n + first;
            if (n % 4 == 0)
                *reinterpret_cast<float4 *>(to) = make_float4(sum[r][s], sum[r][s + 1], sum[r][s + 2], sum[r][s + 3]);
            else
#pragma unroll
                for (int j = 0; j < 4; j++)
                    if (first + j < n)
                        to[j] = sum[r][s + j];
        }
    }
}
