#include <cuda_bf16.h>

__device__ uint4 philox(unsigned counter, unsigned key0, unsigned key1)
{
    uint4 c = make_uint4(counter, 0, 0, 0);
    for (int round = 0; round < 10; round++) {
        unsigned high0 = __umulhi(0xD2511F53u, c.x), low0 = 0xD2511F53u * c.x;
        unsigned high1 = __umulhi(0xCD9E8D57u, c.z), low1 = 0xCD9E8D57u * c.z;
        c = make_uint4(high1 ^ c.y ^ key0, low1, high0 ^ c.w ^ key1, low0);
        key0 += 0x9E3779B9u;
        key1 += 0xBB67AE85u;
    }
    return c;
}

extern "C" __global__ void dropout(const __nv_bfloat16 *x, __nv_bfloat16 *out, unsigned char *mask, int count,
                                   unsigned key0, unsigned key1, unsigned threshold, float scale)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= count)
        return;
    uint4 words = philox(i / 4, key0, key1);
    unsigned word = i % 4 == 0 ? words.x : i % 4 == 1 ? words.y : i % 4 == 2 ? words.z : words.w;
    mask[i] = word >= threshold;
    out[i] = __float2bfloat16(word >= threshold ? __bfloat162float(x[i]) * scale : 0.0f);
}
