#include <cuda_fp16.h>

extern "C" __global__ void max_pool(const half *in, half *out, int *places, int h, int w, int ho, int wo, int count)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= count)
        return;
    int plane = i / (ho * wo), y = i / wo % ho * 2 - 1, x = i % wo * 2 - 1;
    float best = -65504.0f;
    int place = -1;
    for (int dy = 0; dy < 3; dy++)
        for (int dx = 0; dx < 3; dx++) {
            if (y + dy < 0 || y + dy >= h || x + dx < 0 || x + dx >= w)
                continue;
            float value = __half2float(in[((size_t)plane * h + y + dy) * w + x + dx]);
            if (place < 0 || value > best) {
                best = value;
                place = (y + dy) * w + x + dx;
            }
        }
    out[i] = __float2half(best);
    places[i] = place;
}
