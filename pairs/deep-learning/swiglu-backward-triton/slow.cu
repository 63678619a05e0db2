#include <cuda_bf16.h>

extern "C" __global__ void gate_gradient(const __nv_bfloat16 *gate, const __nv_bfloat16 *up, const __nv_bfloat16 *dy,
                                         __nv_bfloat16 *dgate, int count)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= count)
        return;
    float g = __bfloat162float(gate[i]), s = 1.0f / (1.0f + expf(-g));
    dgate[i] = __float2bfloat16(__bfloat162float(dy[i]) * __bfloat162float(up[i]) * s * (1.0f + g * (1.0f - s)));
}

extern "C" __global__ void up_gradient(const __nv_bfloat16 *gate, const __nv_bfloat16 *dy, __nv_bfloat16 *dup, int count)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= count)
        return;
    float g = __bfloat162float(gate[i]);
    dup[i] = __float2bfloat16(__bfloat162float(dy[i]) * g / (1.0f + expf(-g)));
}
