#define WARPS 4
#define UNROLL 4

__device__ __forceinline__ float dot(float4 p, float4 q, float sum)
{
    sum = fmaf(p.x, q.x, sum);
    sum = fmaf(p.y, q.y, sum);
    sum = fmaf(p.z, q.z, sum);
    return fmaf(p.w, q.w, sum);
}

__device__ __forceinline__ float row_quads(const float *__restrict__ row, const float *__restrict__ x, int n,
                                           int lane)
{
    const float4 *left = reinterpret_cast<const float4 *>(row);
    const float4 *right = reinterpret_cast<const float4 *>(x);
    const int quads = n / 4;
    float sum[UNROLL] = {};
    int i = lane;
    for (; i + 32 * (UNROLL - 1) < quads; i += 32 * UNROLL) {
        float4 held[UNROLL];
#pragma unroll
        for (int u = 0; u < UNROLL; u++)
            held[u] = __ldcs(left + i + 32 * u);
#pragma unroll
        for (int u = 0; u < UNROLL; u++)
            sum[u] = dot(held[u], __ldg(right + i + 32 * u), sum[u]);
    }
    for (; i < quads; i += 32)
        sum[0] = dot(__ldcs(left + i), __ldg(right + i), sum[0]);
    return (sum[0] + sum[1]) + (sum[2] + sum[3]);
}

extern "C" __global__ void __launch_bounds__(32 * WARPS)
    gemv(const float *__restrict__ a, const float *__restrict__ x, float *__restrict__ y, int m, int n, float alpha,
         float beta)
{
    const int lane = threadIdx.x % 32;
    const int row = blockIdx.x * WARPS + threadIdx.x / 32;
    if (row >= m)
        return;
    const float *from = a + row * n;
    float sum = 0.0f;
    if (n % 4 == 0)
        sum = row_quads(from, x, n, lane);
    else
        for (int i = lane; i < n; i += 32)
            sum = fmaf(from[i], x[i], sum);
#pragma unroll
    for (int offset = 16; offset > 0; offset /= 2)
        sum += __shfl_down_sync(0xffffffffu, sum, offset);
    if (lane == 0)
        y[row] = alpha * sum + beta * y[row];
}
