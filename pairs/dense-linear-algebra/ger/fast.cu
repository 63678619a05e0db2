#define THREADS 128
#define ROWS 8

extern "C" __global__ void __launch_bounds__(THREADS)
    ger(float *__restrict__ a, const float *__restrict__ x, const float *__restrict__ y, int m, int n, float alpha)
{
    const int first = blockIdx.y * ROWS;
    const int last = min(first + ROWS, m);
    if (n % 4 == 0) {
        const int col = (blockIdx.x * THREADS + threadIdx.x) * 4;
        if (col >= n)
            return;
        const float4 right = *reinterpret_cast<const float4 *>(y + col);
        float4 held[ROWS];
#pragma unroll
        for (int r = 0; r < ROWS; r++)
            if (first + r < last)
                held[r] = __ldcs(reinterpret_cast<const float4 *>(a + (first + r) * n + col));
#pragma unroll
        for (int r = 0; r < ROWS; r++)
            if (first + r < last) {
                const float left = alpha * x[first + r];
                held[r].x = fmaf(left, right.x, held[r].x);
                held[r].y = fmaf(left, right.y, held[r].y);
                held[r].z = fmaf(left, right.z, held[r].z);
                held[r].w = fmaf(left, right.w, held[r].w);
                __stcs(reinterpret_cast<float4 *>(a + (first + r) * n + col), held[r]);
            }
    } else {
        const int base = blockIdx.x * (4 * THREADS);
        for (int col = base + threadIdx.x; col < min(base + 4 * THREADS, n); col += THREADS) {
            const float right = y[col];
            for (int row = first; row < last; row++)
                a[row * n + col] = fmaf(alpha * x[row], right, a[row * n + col]);
        }
    }
}
