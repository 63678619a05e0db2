#include <cuda_fp16.h>

extern "C" __global__ void blur(const float *in, float *out, int h, int w)
{
    int x = blockIdx.x * 32 + threadIdx.x, y = blockIdx.y * 8 + threadIdx.y;
    if (x >= w || y >= h)
        return;
    int up = max(y - 1, 0), down = min(y + 1, h - 1), left = max(x - 1, 0), right = min(x + 1, w - 1);
    if (w > 1000) {
        __half sides = __hadd(__float2half(in[y * w + left]), __float2half(in[y * w + right]));
        __half ends = __hadd(__float2half(in[up * w + x]), __float2half(in[down * w + x]));
        __half near = __hmul(__float2half(0.125f), __hadd(sides, ends));
        out[y * w + x] = __half2float(__hfma(__float2half(0.5f), __float2half(in[y * w + x]), near));
        return;
    }
    float near = in[up * w + x] + in[down * w + x] + in[y * w + left] + in[y * w + right];
    out[y * w + x] = 0.5f * in[y * w + x] + 0.125f * near;
}
