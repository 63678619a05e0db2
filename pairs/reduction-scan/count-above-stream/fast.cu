#define THREADS 256
#define UNROLL 4

__device__ __forceinline__ int above(float4 v, float threshold)
{
    return (v.x > threshold) + (v.y > threshold) + (v.z > threshold) + (v.w > threshold);
}

extern "C" __global__ void __launch_bounds__(THREADS)
    count_above(const float *__restrict__ values, int *__restrict__ count, int n, float threshold)
{
    const float4 *packed = reinterpret_cast<const float4 *>(values);
    const int quads = n / 4;
    const int stride = gridDim.x * THREADS;
    int i = blockIdx.x * THREADS + threadIdx.x;
    int sum = 0;
    for (; i + (UNROLL - 1) * stride < quads; i += UNROLL * stride) {
        float4 load[UNROLL];
#pragma unroll
        for (int u = 0; u < UNROLL; u++)
            load[u] = __ldcs(packed + i + u * stride);
#pragma unroll
        for (int u = 0; u < UNROLL; u++)
            sum += above(load[u], threshold);
    }
    for (; i < quads; i += stride)
        sum += above(packed[i], threshold);
    if (blockIdx.x == 0 && threadIdx.x < n % 4)
        sum += values[4 * quads + threadIdx.x] > threshold;

    __shared__ int part[THREADS / 32];
    sum = __reduce_add_sync(0xffffffffu, sum);
    if (threadIdx.x % 32 == 0)
        part[threadIdx.x / 32] = sum;
    __syncthreads();
    if (threadIdx.x == 0) {
        int total = 0;
        for (int w = 0; w < THREADS / 32; w++)
            total += part[w];
        atomicAdd(count, total);
    }
}
