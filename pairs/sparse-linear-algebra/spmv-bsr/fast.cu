#define WARPS 4
#define ALL 0xffffffffu

__device__ __forceinline__ float dot(float4 p, float4 q, float sum)
{
    sum = fmaf(p.x, q.x, sum);
    sum = fmaf(p.y, q.y, sum);
    sum = fmaf(p.z, q.z, sum);
    return fmaf(p.w, q.w, sum);
}

extern "C" __global__ void __launch_bounds__(32 * WARPS)
    spmv(const int *__restrict__ offsets, const int *__restrict__ columns, const float4 *__restrict__ values,
         const float4 *__restrict__ x, float *__restrict__ y, int brows)
{
    const int lane = threadIdx.x % 32;
    const int brow = blockIdx.x * WARPS + threadIdx.x / 32;
    if (brow >= brows)
        return;
    const int end = offsets[brow + 1];
    int i = offsets[brow] + lane / 4;
    float first = 0.0f, second = 0.0f;
    for (; i + 8 < end; i += 16) {
        const int near = __ldg(columns + i), far = __ldg(columns + i + 8);
        const float4 p = __ldcs(values + i * 4 + lane % 4), q = __ldcs(values + (i + 8) * 4 + lane % 4);
        first = dot(p, __ldg(x + near), first);
        second = dot(q, __ldg(x + far), second);
    }
    if (i < end)
        first = dot(__ldcs(values + i * 4 + lane % 4), __ldg(x + __ldg(columns + i)), first);
    float sum = first + second;
#pragma unroll
    for (int offset = 4; offset < 32; offset *= 2)
        sum += __shfl_xor_sync(ALL, sum, offset);
    if (lane < 4)
        y[brow * 4 + lane] = sum;
}
