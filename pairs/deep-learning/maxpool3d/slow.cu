#include <cuda_bf16.h>

extern "C" __global__ void max_pool(const __nv_bfloat16 *in, __nv_bfloat16 *out, int d, int h, int w, int count)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= count)
        return;
    int x = i % w, y = i / w % h, z = i / w / h % d, volume = i / w / h / d;
    float best = -3.0e38f;
    for (int dz = 0; dz < 2; dz++)
        for (int dy = 0; dy < 2; dy++)
            for (int dx = 0; dx < 2; dx++) {
                size_t line = ((size_t)volume * 2 * d + 2 * z + dz) * 2 * h + 2 * y + dy;
                best = fmaxf(best, __bfloat162float(in[line * 2 * w + 2 * x + dx]));
            }
    out[i] = __float2bfloat16(best);
}
