#include <cuda_bf16.h>

extern "C" __global__ void combine(const __nv_bfloat16 *rows, const int *place, const float *weights,
                                   __nv_bfloat16 *out, int tokens, int choices, int dim)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= tokens * dim)
        return;
    int token = i / dim, col = i % dim;
    float sum = 0.0f;
    for (int c = 0; c < choices; c++) {
        int entry = token * choices + c;
        sum += weights[entry] * __bfloat162float(rows[(size_t)place[entry] * dim + col]);
    }
    out[i] = __float2bfloat16(sum);
}
