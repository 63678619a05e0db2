#include <cuda_bf16.h>

#define DIM 128
#define ROWS 4
#define BATCH 4
#define LOWEST -3.0e38f
#define ALL 0xffffffffu

// A warp a head: a lane has the weight of one split and four numbers of every split's result.
extern "C" __global__ void __launch_bounds__(32 * ROWS)
    merge(const float4 *__restrict__ parts, const float *__restrict__ logs, uint2 *__restrict__ out,
          float *__restrict__ whole, int splits, int heads)
{
    const int head = blockIdx.x * ROWS + threadIdx.x / 32, lane = threadIdx.x % 32;
    if (head >= heads)
        return;
    float4 sum = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
    float top = LOWEST, total = 0.0f;
    for (int first = 0; first < splits; first += 32) {
        const int size = min(32, splits - first);
        const float own = lane < size ? logs[static_cast<size_t>(first + lane) * heads + head] : LOWEST;
        float largest = fmaxf(top, own);
#pragma unroll
        for (int offset = 16; offset > 0; offset /= 2)
            largest = fmaxf(largest, __shfl_xor_sync(ALL, largest, offset));
        const float shrink = __expf(top - largest), weight = __expf(own - largest);
        float added = weight;
#pragma unroll
        for (int offset = 16; offset > 0; offset /= 2)
            added += __shfl_xor_sync(ALL, added, offset);
        total = fmaf(total, shrink, added);
        top = largest;
        sum = make_float4(sum.x * shrink, sum.y * shrink, sum.z * shrink, sum.w * shrink);
        for (int s = 0; s < size; s += BATCH) {
            float4 held[BATCH];
#pragma unroll
            for (int u = 0; u < BATCH; u++)
                if (s + u < size)
                    held[u] = __ldcs(parts + (static_cast<size_t>(first + s + u) * heads + head) * (DIM / 4) + lane);
#pragma unroll
            for (int u = 0; u < BATCH; u++) {
                const float by = __shfl_sync(ALL, weight, (s + u) % 32);
                if (s + u >= size)
                    continue;
                sum.x = fmaf(by, held[u].x, sum.x);
                sum.y = fmaf(by, held[u].y, sum.y);
                sum.z = fmaf(by, held[u].z, sum.z);
                sum.w = fmaf(by, held[u].w, sum.w);
            }
        }
    }
    const float by = __fdividef(1.0f, total);
    uint2 result;
    reinterpret_cast<__nv_bfloat162 *>(&result)[0] = __floats2bfloat162_rn(sum.x * by, sum.y * by);
    reinterpret_cast<__nv_bfloat162 *>(&result)[1] = __floats2bfloat162_rn(sum.z * by, sum.w * by);
    __stcs(out + static_cast<size_t>(head) * (DIM / 4) + lane, result);
    if (lane == 0)
        whole[head] = top + logf(total);
}
