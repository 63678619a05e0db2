#define THREADS 512
#define WARPS (THREADS / 32)
#define UNROLL 4
#define LOWEST -3.0e38f
#define ALL 0xffffffffu

struct Running {
    float largest, sum;
};

__device__ __forceinline__ void merge(Running &a, float largest, float sum)
{
    const float both = fmaxf(a.largest, largest);
    a.sum = a.sum * __expf(a.largest - both) + sum * __expf(largest - both);
    a.largest = both;
}

__device__ __forceinline__ float largest_of(float4 v) { return fmaxf(fmaxf(v.x, v.y), fmaxf(v.z, v.w)); }

__device__ __forceinline__ float sum_of(float4 v, float largest)
{
    return (__expf(v.x - largest) + __expf(v.y - largest)) + (__expf(v.z - largest) + __expf(v.w - largest));
}

__device__ __forceinline__ Running row_quads(const float4 *__restrict__ row, int quads)
{
    Running mine = {LOWEST, 0.0f};
    int i = threadIdx.x;
    for (; i + (UNROLL - 1) * THREADS < quads; i += UNROLL * THREADS) {
        float4 held[UNROLL];
#pragma unroll
        for (int u = 0; u < UNROLL; u++)
            held[u] = __ldcs(row + i + u * THREADS);
        float both = mine.largest;
#pragma unroll
        for (int u = 0; u < UNROLL; u++)
            both = fmaxf(both, largest_of(held[u]));
        mine.sum *= __expf(mine.largest - both);
        mine.largest = both;
#pragma unroll
        for (int u = 0; u < UNROLL; u++)
            mine.sum += sum_of(held[u], both);
    }
    for (; i < quads; i += THREADS) {
        const float4 v = __ldcs(row + i);
        const float both = fmaxf(mine.largest, largest_of(v));
        mine.sum = mine.sum * __expf(mine.largest - both) + sum_of(v, both);
        mine.largest = both;
    }
    return mine;
}

extern "C" __global__ void __launch_bounds__(THREADS)
    cross_entropy(const float *__restrict__ logits, const int *__restrict__ labels, float *__restrict__ loss, int vocab)
{
    __shared__ Running parts[WARPS];
    const float *row = logits + blockIdx.x * vocab;
    Running mine = {LOWEST, 0.0f};
    if (vocab % 4 == 0)
        mine = row_quads(reinterpret_cast<const float4 *>(row), vocab / 4);
    else
        for (int i = threadIdx.x; i < vocab; i += THREADS)
            merge(mine, row[i], 1.0f);
#pragma unroll
    for (int offset = 16; offset > 0; offset /= 2) {
        const float largest = __shfl_xor_sync(ALL, mine.largest, offset);
        const float sum = __shfl_xor_sync(ALL, mine.sum, offset);
        merge(mine, largest, sum);
    }
    if (threadIdx.x % 32 == 0)
        parts[threadIdx.x / 32] = mine;
    __syncthreads();
    if (threadIdx.x == 0) {
        Running all = parts[0];
#pragma unroll
        for (int warp = 1; warp < WARPS; warp++)
            merge(all, parts[warp].largest, parts[warp].sum);
        loss[blockIdx.x] = logf(all.sum) + all.largest - row[labels[blockIdx.x]];
    }
}
