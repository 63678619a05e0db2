#include <cuda_bf16.h>

extern "C" __global__ void permute(const __nv_bfloat16 *hidden, const int *place, __nv_bfloat16 *out, int choices,
                                   int dim)
{
    int i = blockIdx.y * blockDim.x + threadIdx.x, entry = blockIdx.x;
    if (i < dim)
        out[(size_t)place[entry] * dim + i] = hidden[(size_t)(entry / choices) * dim + i];
}
