#include <cuda_bf16.h>

extern "C" __global__ void upsample(const __nv_bfloat16 *in, __nv_bfloat16 *out, int h, int w, int count)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= count)
        return;
    int x = i % (2 * w), y = i / (2 * w) % (2 * h), plane = i / (2 * w) / (2 * h);
    float u = fmaxf((x + 0.5f) * 0.5f - 0.5f, 0.0f), v = fmaxf((y + 0.5f) * 0.5f - 0.5f, 0.0f);
    int x0 = (int)u, y0 = (int)v, x1 = min(x0 + 1, w - 1), y1 = min(y0 + 1, h - 1);
    float fx = u - x0, fy = v - y0;
    const __nv_bfloat16 *from = in + (size_t)plane * h * w;
    float top = __bfloat162float(from[y0 * w + x0]) * (1.0f - fx) + __bfloat162float(from[y0 * w + x1]) * fx;
    float bottom = __bfloat162float(from[y1 * w + x0]) * (1.0f - fx) + __bfloat162float(from[y1 * w + x1]) * fx;
    out[i] = __float2bfloat16(top * (1.0f - fy) + bottom * fy);
}
