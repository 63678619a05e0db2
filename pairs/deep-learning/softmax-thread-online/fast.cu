#define THREADS 256
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

__device__ __forceinline__ void add(Running &a, float4 v)
{
    const float both = fmaxf(a.largest, fmaxf(fmaxf(v.x, v.y), fmaxf(v.z, v.w)));
    a.sum = a.sum * __expf(a.largest - both) +
            ((__expf(v.x - both) + __expf(v.y - both)) + (__expf(v.z - both) + __expf(v.w - both)));
    a.largest = both;
}

__device__ __forceinline__ Running block_merge(Running mine)
{
    __shared__ Running parts[WARPS];
#pragma unroll
    for (int offset = 16; offset > 0; offset /= 2) {
        const float largest = __shfl_xor_sync(ALL, mine.largest, offset);
        const float sum = __shfl_xor_sync(ALL, mine.sum, offset);
        merge(mine, largest, sum);
    }
    if (threadIdx.x % 32 == 0)
        parts[threadIdx.x / 32] = mine;
    __syncthreads();
    Running all = parts[0];
#pragma unroll
    for (int warp = 1; warp < WARPS; warp++)
        merge(all, parts[warp].largest, parts[warp].sum);
    return all;
}

__device__ __forceinline__ void row_quads(const float4 *__restrict__ from, float4 *__restrict__ to, int quads)
{
    Running mine = {LOWEST, 0.0f};
    float4 held[UNROLL];
    for (int base = 0; base < quads; base += UNROLL * THREADS) {
#pragma unroll
        for (int u = 0; u < UNROLL; u++) {
            const int i = base + u * THREADS + threadIdx.x;
            held[u] = i < quads ? from[i] : make_float4(LOWEST, LOWEST, LOWEST, LOWEST);
        }
#pragma unroll
        for (int u = 0; u < UNROLL; u++)
            if (base + u * THREADS + (int)threadIdx.x < quads)
                add(mine, held[u]);
    }
    const Running all = block_merge(mine);
    const float scale = 1.0f / all.sum;
    const int last = (quads - 1) / (UNROLL * THREADS) * (UNROLL * THREADS);
    for (int base = last; base >= 0; base -= UNROLL * THREADS)
#pragma unroll
        for (int u = 0; u < UNROLL; u++) {
            const int i = base + u * THREADS + threadIdx.x;
            if (i >= quads)
                continue;
            const float4 v = base == last ? held[u] : from[i];
            __stcs(to + i, make_float4(__expf(v.x - all.largest) * scale, __expf(v.y - all.largest) * scale,
                                       __expf(v.z - all.largest) * scale, __expf(v.w - all.largest) * scale));
        }
}

extern "C" __global__ void __launch_bounds__(THREADS)
    softmax(const float *__restrict__ in, float *__restrict__ out, int rows, int cols)
{
    const float *from = in + blockIdx.x * cols;
    float *to = out + blockIdx.x * cols;
    if (cols % 4 == 0) {
        row_quads(reinterpret_cast<const float4 *>(from), reinterpret_cast<float4 *>(to), cols / 4);
        return;
    }
    Running mine = {LOWEST, 0.0f};
    for (int i = threadIdx.x; i < cols; i += THREADS)
        merge(mine, from[i], 1.0f);
    const Running all = block_merge(mine);
    const float scale = 1.0f / all.sum;
    for (int i = threadIdx.x; i < cols; i += THREADS)
        to[i] = __expf(from[i] - all.largest) * scale;
}
