#include <cuda_bf16.h>

#define GROUP 128

__device__ unsigned char to_fp8(float value)
{
    unsigned short pair;
    asm("cvt.rn.satfinite.e4m3x2.f32 %0, %1, %2;" : "=h"(pair) : "f"(0.0f), "f"(value));
    return (unsigned char)(pair & 0xff);
}

extern "C" __global__ void silu_mul(const __nv_bfloat16 *x, float *y, int dim, int count)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= count)
        return;
    int token = i / dim, col = i % dim;
    float gate = __bfloat162float(x[(size_t)token * 2 * dim + col]);
    y[i] = gate / (1.0f + expf(-gate)) * __bfloat162float(x[(size_t)token * 2 * dim + dim + col]);
}

extern "C" __global__ void group_scale(const float *y, float *scale)
{
    __shared__ float part[GROUP];
    int tid = threadIdx.x;
    part[tid] = fabsf(y[(size_t)blockIdx.x * GROUP + tid]);
    __syncthreads();
    for (int stride = GROUP / 2; stride > 0; stride /= 2) {
        if (tid < stride)
            part[tid] = fmaxf(part[tid], part[tid + stride]);
        __syncthreads();
    }
    if (tid == 0)
        scale[blockIdx.x] = part[0] / 448.0f;
}

extern "C" __global__ void quantize(const float *y, const float *scale, unsigned char *out, int count)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < count)
        out[i] = to_fp8(y[i] / fmaxf(scale[i / GROUP], 1e-12f));
}
