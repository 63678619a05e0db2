#define WARPS 4
#define UNROLL 8
#define ALL 0xffffffffu

__device__ __forceinline__ float sum_of(float4 v) { return (v.x + v.y) + (v.z + v.w); }

extern "C" __global__ void __launch_bounds__(32 * WARPS)
    average(const float *__restrict__ in, float *__restrict__ out, int planes, int space)
{
    const int lane = threadIdx.x % 32;
    const int plane = blockIdx.x * WARPS + threadIdx.x / 32;
    if (plane >= planes)
        return;
    const float *from = in + plane * space;
    float sum = 0.0f;
    if (space % 4 == 0) {
        const float4 *quads = reinterpret_cast<const float4 *>(from);
        int i = lane;
        for (; i + 32 * (UNROLL - 1) < space / 4; i += 32 * UNROLL) {
            float4 held[UNROLL];
#pragma unroll
            for (int u = 0; u < UNROLL; u++)
                held[u] = __ldcs(quads + i + 32 * u);
#pragma unroll
            for (int u = 0; u < UNROLL; u++)
                sum += sum_of(held[u]);
        }
        for (; i < space / 4; i += 32)
            sum += sum_of(__ldcs(quads + i));
    } else {
        for (int i = lane; i < space; i += 32)
            sum += from[i];
    }
#pragma unroll
    for (int offset = 16; offset > 0; offset /= 2)
        sum += __shfl_down_sync(ALL, sum, offset);
    if (lane == 0)
        out[plane] = sum / space;
}
