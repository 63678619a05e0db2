#include <cuda_bf16.h>

extern "C" __global__ void pixel_shuffle(const __nv_bfloat16 *in, __nv_bfloat16 *out, int channels, int h, int w,
                                         int count)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= count)
        return;
    int x = i % (2 * w), y = i / (2 * w) % (2 * h), c = i / (4 * w * h) % channels, image = i / (4 * w * h) / channels;
    int from = c * 4 + y % 2 * 2 + x % 2;
    out[i] = in[(((size_t)image * channels * 4 + from) * h + y / 2) * w + x / 2];
}
