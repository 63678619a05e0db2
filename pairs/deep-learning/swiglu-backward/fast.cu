#include <cuda_bf16.h>

typedef __nv_bfloat16 bf16;

__device__ __forceinline__ float2 at(const uint4 &bits, int j)
{
    return __bfloat1622float2(reinterpret_cast<const __nv_bfloat162 *>(&bits)[j]);
}

// x: the gate's gradient, y: that of what it lets through.
__device__ __forceinline__ float2 gradients(float gate, float up, float dy)
{
    const float share = __fdividef(1.0f, 1.0f + __expf(-gate)), active = gate * share;
    return make_float2(dy * up * fmaf(active, 1.0f - share, share), dy * active);
}

extern "C" __global__ void __launch_bounds__(256)
    swiglu_backward(const bf16 *__restrict__ gate, const bf16 *__restrict__ up, const bf16 *__restrict__ dy,
                    bf16 *__restrict__ dgate, bf16 *__restrict__ dup, int count)
{
    const int i = (blockIdx.x * blockDim.x + threadIdx.x) * 8;
    if (i + 8 > count) {
        for (int j = i; j < count; j++) {
            const float2 both =
                gradients(__bfloat162float(gate[j]), __bfloat162float(up[j]), __bfloat162float(dy[j]));
            dgate[j] = __float2bfloat16(both.x);
            dup[j] = __float2bfloat16(both.y);
        }
        return;
    }
    const uint4 g = __ldcs(reinterpret_cast<const uint4 *>(gate + i));
    const uint4 u = __ldcs(reinterpret_cast<const uint4 *>(up + i));
    const uint4 d = __ldcs(reinterpret_cast<const uint4 *>(dy + i));
    uint4 first, second;
#pragma unroll
    for (int j = 0; j < 4; j++) {
        const float2 left = gradients(at(g, j).x, at(u, j).x, at(d, j).x);
        const float2 right = gradients(at(g, j).y, at(u, j).y, at(d, j).y);
        reinterpret_cast<__nv_bfloat162 *>(&first)[j] = __floats2bfloat162_rn(left.x, right.x);
        reinterpret_cast<__nv_bfloat162 *>(&second)[j] = __floats2bfloat162_rn(left.y, right.y);
    }
    __stcs(reinterpret_cast<uint4 *>(dgate + i), first);
    __stcs(reinterpret_cast<uint4 *>(dup + i), second);
}
