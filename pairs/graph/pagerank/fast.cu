extern "C" __global__ void count_out(const int *sources, int *degrees, int edges)
{
    int edge = blockIdx.x * blockDim.x + threadIdx.x;
    if (edge < edges)
        atomicAdd(&degrees[sources[edge]], 1);
}

#define THREADS 256
#define LANES 8
#define FULL 0xffffffffu

extern "C" __global__ void invert(const int *__restrict__ degrees, float *__restrict__ inverse,
                                  float *__restrict__ shares, int nodes)
{
    const int node = blockIdx.x * blockDim.x + threadIdx.x;
    if (node < nodes) {
        const float value = degrees[node] > 0 ? 1.0f / degrees[node] : 0.0f;
        inverse[node] = value;
        shares[node] = value;
    }
}

__device__ __forceinline__ float gather_part(const int *__restrict__ sources, const float *__restrict__ shares,
                                             int edge, int end, int stride)
{
    float sum = 0.0f;
    for (; edge + 3 * stride < end; edge += 4 * stride) {
        int source[4];
#pragma unroll
        for (int u = 0; u < 4; u++)
            source[u] = __ldcs(sources + edge + u * stride);
#pragma unroll
        for (int u = 0; u < 4; u++)
            sum += shares[source[u]];
    }
    for (; edge < end; edge += stride)
        sum += shares[__ldcs(sources + edge)];
    return sum;
}

extern "C" __global__ void __launch_bounds__(THREADS)
    gather(const int *__restrict__ offsets, const int *__restrict__ sources, const float *__restrict__ shares,
           const float *__restrict__ inverse, float *__restrict__ next_shares, float *__restrict__ rank, int nodes,
           float damping)
{
    const int lane = threadIdx.x % 32, part = lane % LANES;
    const int node = (blockIdx.x * THREADS + threadIdx.x) / LANES;
    int begin = 0, end = 0;
    if (node < nodes) {
        begin = offsets[node];
        end = offsets[node + 1];
    }
    const bool heavy = end - begin > 32 * LANES;
    float sum = heavy ? 0.0f : gather_part(sources, shares, begin + part, end, LANES);
    unsigned pending = __ballot_sync(FULL, heavy && part == 0);
    while (pending != 0) {
        const int owner = __ffs(pending) - 1;
        const int heavy_begin = __shfl_sync(FULL, begin, owner);
        const int heavy_end = __shfl_sync(FULL, end, owner);
        const float piece = gather_part(sources, shares, heavy_begin + lane, heavy_end, 32);
        float total = piece;
#pragma unroll
        for (int distance = 16; distance >= LANES; distance /= 2)
            total += __shfl_xor_sync(FULL, total, distance);
        if (lane / LANES == owner / LANES)
            sum = total;
        pending &= pending - 1;
    }
#pragma unroll
    for (int distance = LANES / 2; distance > 0; distance /= 2)
        sum += __shfl_xor_sync(FULL, sum, distance);
    if (part == 0 && node < nodes) {
        const float value = (1.0f - damping) + damping * sum;
        rank[node] = value;
        next_shares[node] = value * inverse[node];
    }
}
