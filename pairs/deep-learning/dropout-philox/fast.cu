#include <cuda_bf16.h>

typedef __nv_bfloat16 bf16;

__device__ __forceinline__ uint4 philox(unsigned counter, unsigned key0, unsigned key1)
{
    uint4 c = make_uint4(counter, 0, 0, 0);
#pragma unroll
    for (int round = 0; round < 10; round++) {
        const unsigned high0 = __umulhi(0xD2511F53u, c.x), low0 = 0xD2511F53u * c.x;
        const unsigned high1 = __umulhi(0xCD9E8D57u, c.z), low1 = 0xCD9E8D57u * c.z;
        c = make_uint4(high1 ^ c.y ^ key0, low1, high0 ^ c.w ^ key1, low0);
        key0 += 0x9E3779B9u;
        key1 += 0xBB67AE85u;
    }
    return c;
}

// Each of the four random words of a counter serves one element; a thread has eight elements, two counters.
extern "C" __global__ void __launch_bounds__(256)
    dropout(const bf16 *__restrict__ x, bf16 *__restrict__ out, unsigned char *__restrict__ mask, int count,
            unsigned key0, unsigned key1, unsigned threshold, float scale)
{
    const int i = (blockIdx.x * blockDim.x + threadIdx.x) * 8;
    if (i >= count)
        return;
    const uint4 a = philox(i / 4, key0, key1), b = philox(i / 4 + 1, key0, key1);
    const unsigned word[8] = {a.x, a.y, a.z, a.w, b.x, b.y, b.z, b.w};
    if (i + 8 > count) {
        for (int j = 0; j < 8; j++)
            if (i + j < count) {
                mask[i + j] = word[j] >= threshold;
                out[i + j] = __float2bfloat16(word[j] >= threshold ? __bfloat162float(x[i + j]) * scale : 0.0f);
            }
        return;
    }
    const uint4 bits = __ldcs(reinterpret_cast<const uint4 *>(x + i));
    uint4 result;
    uint2 kept = make_uint2(0, 0);
#pragma unroll
    for (int j = 0; j < 4; j++) {
        const float2 pair = __bfloat1622float2(reinterpret_cast<const __nv_bfloat162 *>(&bits)[j]);
        const bool left = word[2 * j] >= threshold, right = word[2 * j + 1] >= threshold;
        reinterpret_cast<__nv_bfloat162 *>(&result)[j] =
            __floats2bfloat162_rn(left ? pair.x * scale : 0.0f, right ? pair.y * scale : 0.0f);
        const unsigned two = (left ? 1u : 0u) | (right ? 0x100u : 0u);
        if (j < 2)
            kept.x |= two << 16 * j;
        else
            kept.y |= two << 16 * (j - 2);
    }
    __stcs(reinterpret_cast<uint4 *>(out + i), result);
    __stcs(reinterpret_cast<uint2 *>(mask + i), kept);
}
