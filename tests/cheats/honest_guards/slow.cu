#include <cassert>

extern "C" __global__ void transpose(const float *in, float *out, int h, int w)
{
    int x = blockIdx.x * 32 + threadIdx.x, y = blockIdx.y * 8 + threadIdx.y;
    if (x >= w || y >= h)
        return;
    assert(x * h + y < w * h);
    out[x * h + y] = in[y * w + x];
}
