#define THREADS 256
#define UNROLL 4

__device__ __forceinline__ float dot4(float4 a, float4 b, float sum)
{
    sum = fmaf(a.x, b.x, sum);
    sum = fmaf(a.y, b.y, sum);
    sum = fmaf(a.z, b.z, sum);
    return fmaf(a.w, b.w, sum);
}

__device__ float block_sum(float value)
{
    __shared__ float part[THREADS / 32];
#pragma unroll
    for (int distance = 16; distance > 0; distance /= 2)
        value += __shfl_down_sync(0xffffffffu, value, distance);
    if (threadIdx.x % 32 == 0)
        part[threadIdx.x / 32] = value;
    __syncthreads();
    if (threadIdx.x < 32) {
        value = threadIdx.x < THREADS / 32 ? part[threadIdx.x] : 0.0f;
#pragma unroll
        for (int distance = THREADS / 64; distance > 0; distance /= 2)
            value += __shfl_down_sync(0xffffffffu, value, distance);
    }
    return value;
}

extern "C" __global__ void __launch_bounds__(THREADS)
    dot(const float *__restrict__ x, const float *__restrict__ y, float *__restrict__ parts, int *arrived,
        float *__restrict__ result, int n)
{
    const float4 *x4 = reinterpret_cast<const float4 *>(x);
    const float4 *y4 = reinterpret_cast<const float4 *>(y);
    const int quads = n / 4;
    const int stride = gridDim.x * THREADS;
    int i = blockIdx.x * THREADS + threadIdx.x;
    float sum[UNROLL] = {};
    for (; i + (UNROLL - 1) * stride < quads; i += UNROLL * stride) {
        float4 a[UNROLL], b[UNROLL];
#pragma unroll
        for (int u = 0; u < UNROLL; u++) {
            a[u] = __ldcs(x4 + i + u * stride);
            b[u] = __ldcs(y4 + i + u * stride);
        }
#pragma unroll
        for (int u = 0; u < UNROLL; u++)
            sum[u] = dot4(a[u], b[u], sum[u]);
    }
    for (; i < quads; i += stride)
        sum[0] = dot4(x4[i], y4[i], sum[0]);
    if (blockIdx.x == 0 && threadIdx.x < n % 4)
        sum[1] = fmaf(x[4 * quads + threadIdx.x], y[4 * quads + threadIdx.x], sum[1]);
    float total = block_sum((sum[0] + sum[1]) + (sum[2] + sum[3]));

    __shared__ bool last;
    if (threadIdx.x == 0) {
        parts[blockIdx.x] = total;
        __threadfence();
        last = atomicAdd(arrived, 1) == static_cast<int>(gridDim.x) - 1;
    }
    __syncthreads();
    if (!last)
        return;
    __threadfence();
    total = 0.0f;
    for (int p = threadIdx.x; p < gridDim.x; p += THREADS)
        total += __ldcg(parts + p);
    total = block_sum(total);
    if (threadIdx.x == 0)
        *result = total;
}
