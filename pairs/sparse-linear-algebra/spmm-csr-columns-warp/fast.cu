#define WARPS 4
#define UNROLL 8
#define ALL 0xffffffffu

__device__ __forceinline__ void add(float4 &sum, float value, float4 row)
{
    sum.x = fmaf(value, row.x, sum.x);
    sum.y = fmaf(value, row.y, sum.y);
    sum.z = fmaf(value, row.z, sum.z);
    sum.w = fmaf(value, row.w, sum.w);
}

__device__ __forceinline__ void row_quads(const int *__restrict__ columns, const float *__restrict__ values,
                                          const float *__restrict__ b, float *__restrict__ to, int begin, int end,
                                          int n, int col)
{
    const int lane = threadIdx.x % 32;
    const bool inside = col < n;
    float4 sum = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
    for (int base = begin; base < end; base += 32) {
        const int mine = base + lane < end ? columns[base + lane] : 0;
        const float weight = base + lane < end ? values[base + lane] : 0.0f;
        const int count = min(32, end - base);
        for (int first = 0; first < count; first += UNROLL) {
            float4 held[UNROLL];
            float share[UNROLL];
#pragma unroll
            for (int u = 0; u < UNROLL; u++) {
                const int at = __shfl_sync(ALL, mine, first + u);
                share[u] = __shfl_sync(ALL, weight, first + u);
                held[u] = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
                if (inside && first + u < count)
                    held[u] = __ldg(reinterpret_cast<const float4 *>(b + at * n + col));
            }
#pragma unroll
            for (int u = 0; u < UNROLL; u++)
                add(sum, share[u], held[u]);
        }
    }
    if (inside)
        __stcs(reinterpret_cast<float4 *>(to + col), sum);
}

extern "C" __global__ void __launch_bounds__(32 * WARPS)
    spmm(const int *__restrict__ offsets, const int *__restrict__ columns, const float *__restrict__ values,
         const float *__restrict__ b, float *__restrict__ c, int rows, int n)
{
    const int lane = threadIdx.x % 32;
    const int row = blockIdx.x * WARPS + threadIdx.x / 32;
    if (row >= rows)
        return;
    const int begin = offsets[row], end = offsets[row + 1];
    if (n % 4 == 0) {
        for (int base = 0; base < n; base += 128)
            row_quads(columns, values, b, c + row * n, begin, end, n, base + 4 * lane);
        return;
    }
    for (int col = lane; col < n; col += 32) {
        float sum = 0.0f;
        for (int i = begin; i < end; i++)
            sum = fmaf(values[i], b[columns[i] * n + col], sum);
        c[row * n + col] = sum;
    }
}
