#include <cuda_fp16.h>

#define GROUP 128

extern "C" __global__ void dequantize(const unsigned char *packed, const half *scales, const unsigned char *zeros,
                                      half *out, int count)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= count)
        return;
    int code = i % 2 == 0 ? packed[i / 2] & 15 : packed[i / 2] >> 4;
    out[i] = __float2half((float)(code - zeros[i / GROUP]) * __half2float(scales[i / GROUP]));
}
