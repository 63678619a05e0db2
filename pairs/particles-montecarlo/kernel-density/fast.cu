#define THREADS 128
#define OWN 4
#define TILE 512

__device__ __forceinline__ float power_of_2(float x)
{
    float y;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}

// Coordinates are scaled so that the exponent is a plain sum of squares to the base of two.
extern "C" __global__ void __launch_bounds__(THREADS)
    density(const float2 *__restrict__ queries, const float2 *__restrict__ samples, float *__restrict__ out,
            float width, int m, int n)
{
    __shared__ float4 tile[TILE / 2];
    const float scale = sqrtf(0.72134752f) / width;
    const int first = blockIdx.x * THREADS * OWN + threadIdx.x;
    float x[OWN], y[OWN], sum[OWN] = {};
#pragma unroll
    for (int q = 0; q < OWN; q++) {
        const float2 query = queries[min(first + q * THREADS, m - 1)];
        x[q] = query.x * scale;
        y[q] = query.y * scale;
    }
    for (int base = 0; base < n; base += TILE) {
        __syncthreads();
        for (int k = threadIdx.x; k < TILE; k += THREADS) {
            const float2 sample = base + k < n ? samples[base + k] : make_float2(1e18f, 0.0f);
            reinterpret_cast<float2 *>(tile)[k] = make_float2(sample.x * scale, sample.y * scale);
        }
        __syncthreads();
        float part[OWN] = {};
#pragma unroll 8
        for (int k = 0; k < TILE / 2; k++) {
            const float4 two = tile[k];
#pragma unroll
            for (int q = 0; q < OWN; q++) {
                const float ax = x[q] - two.x, ay = y[q] - two.y, bx = x[q] - two.z, by = y[q] - two.w;
                part[q] += power_of_2(-ax * ax - ay * ay) + power_of_2(-bx * bx - by * by);
            }
        }
#pragma unroll
        for (int q = 0; q < OWN; q++)
            sum[q] += part[q];
    }
#pragma unroll
    for (int q = 0; q < OWN; q++)
        if (first + q * THREADS < m)
            out[first + q * THREADS] = sum[q] / n;
}
