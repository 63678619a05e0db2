#define DIM 128
#define WARPS 4
#define UNROLL 4
#define SPAN 256
#define EIGHT 8
#define LOWEST -3.0e38f
#define ALL 0xffffffffu

struct State {
    float largest, sum;
    float4 result;
};

__device__ __forceinline__ float dot(float4 p, float4 q)
{
    return fmaf(p.x, q.x, p.y * q.y) + fmaf(p.z, q.z, p.w * q.w);
}

__device__ __forceinline__ float warp_sum(float value)
{
#pragma unroll
    for (int offset = 16; offset > 0; offset /= 2)
        value += __shfl_xor_sync(ALL, value, offset);
    return value;
}

__device__ __forceinline__ void scale_by(float4 &a, float by)
{
    a.x *= by;
    a.y *= by;
    a.z *= by;
    a.w *= by;
}

__device__ __forceinline__ void add(float4 &a, float by, float4 b)
{
    a.x = fmaf(by, b.x, a.x);
    a.y = fmaf(by, b.y, a.y);
    a.z = fmaf(by, b.z, a.z);
    a.w = fmaf(by, b.w, a.w);
}

__device__ __forceinline__ void merge(State &a, float largest, float sum, float4 result)
{
    const float both = fmaxf(a.largest, largest);
    const float mine = __expf(a.largest - both), other = __expf(largest - both);
    a.largest = both;
    a.sum = a.sum * mine + sum * other;
    scale_by(a.result, mine);
    add(a.result, other, result);
}

__device__ __forceinline__ void take(State &a, const float *score, const float4 *value)
{
    float both = a.largest;
#pragma unroll
    for (int u = 0; u < UNROLL; u++)
        both = fmaxf(both, score[u]);
    const float shrink = __expf(a.largest - both);
    a.largest = both;
    a.sum *= shrink;
    scale_by(a.result, shrink);
#pragma unroll
    for (int u = 0; u < UNROLL; u++) {
        const float weight = score[u] > LOWEST ? __expf(score[u] - both) : 0.0f;
        a.sum += weight;
        add(a.result, weight, value[u]);
    }
}

extern "C" __global__ void __launch_bounds__(32 * WARPS)
    decode(const float4 *__restrict__ q, const float4 *__restrict__ k, const float4 *__restrict__ v,
           float2 *__restrict__ parts, float4 *__restrict__ results, int n, float scale)
{
    __shared__ float2 room[WARPS];
    __shared__ float4 sums[WARPS][32];
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const int head = blockIdx.y;
    const int last = min((int)(blockIdx.x + 1) * SPAN, n);
    const float4 *keys = k + (size_t)head * n * 32, *values = v + (size_t)head * n * 32;
    float4 query = q[head * 32 + lane];
    scale_by(query, scale);
    State mine = {LOWEST, 0.0f, make_float4(0.0f, 0.0f, 0.0f, 0.0f)};

    for (int base = blockIdx.x * SPAN + warp * UNROLL; base < last; base += WARPS * UNROLL) {
        float4 key[UNROLL], value[UNROLL];
        float score[UNROLL];
#pragma unroll
        for (int u = 0; u < UNROLL; u++) {
            const int at = min(base + u, last - 1);
            key[u] = __ldcs(keys + (size_t)at * 32 + lane);
            value[u] = __ldcs(values + (size_t)at * 32 + lane);
        }
#pragma unroll
        for (int u = 0; u < UNROLL; u++) {
            score[u] = warp_sum(dot(query, key[u]));
            if (base + u >= last)
                score[u] = LOWEST;
        }
        take(mine, score, value);
    }
    if (lane == 0)
        room[warp] = make_float2(mine.largest, mine.sum);
    sums[warp][lane] = mine.result;
    __syncthreads();
    if (warp == 0) {
#pragma unroll
        for (int other = 1; other < WARPS; other++)
            merge(mine, room[other].x, room[other].y, sums[other][lane]);
        const int at = head * gridDim.x + blockIdx.x;
        if (lane == 0)
            parts[at] = make_float2(mine.largest, mine.sum);
        results[at * 32 + lane] = mine.result;
    }
}

// A warp has every fourth eight of a head's parts and reads them all at once; the warps' states become one.
extern "C" __global__ void __launch_bounds__(32 * WARPS)
    combine(const float2 *__restrict__ parts, const float4 *__restrict__ results, float4 *__restrict__ out, int count)
{
    __shared__ float2 room[WARPS];
    __shared__ float4 sums[WARPS][32];
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, first = blockIdx.x * count;
    State mine = {LOWEST, 0.0f, make_float4(0.0f, 0.0f, 0.0f, 0.0f)};
    for (int base = warp * EIGHT; base < count; base += WARPS * EIGHT) {
        float2 part[EIGHT];
        float4 result[EIGHT];
#pragma unroll
        for (int i = 0; i < EIGHT; i++) {
            const int at = first + min(base + i, count - 1);
            part[i] = __ldcg(parts + at);
            result[i] = __ldcg(results + at * 32 + lane);
        }
#pragma unroll
        for (int i = 0; i < EIGHT; i++)
            if (base + i < count)
                merge(mine, part[i].x, part[i].y, result[i]);
    }
    if (lane == 0)
        room[warp] = make_float2(mine.largest, mine.sum);
    sums[warp][lane] = mine.result;
    __syncthreads();
    if (warp > 0)
        return;
#pragma unroll
    for (int other = 1; other < WARPS; other++)
        merge(mine, room[other].x, room[other].y, sums[other][lane]);
    scale_by(mine.result, 1.0f / mine.sum);
    out[blockIdx.x * 32 + lane] = mine.result;
}
