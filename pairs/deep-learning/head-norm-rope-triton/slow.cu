#include <cuda_bf16.h>

#define DIM 128

extern "C" __global__ void head_norm(const __nv_bfloat16 *x, const __nv_bfloat16 *weight, float *normal, float eps)
{
    __shared__ float part[DIM];
    int tid = threadIdx.x;
    float value = __bfloat162float(x[(size_t)blockIdx.x * DIM + tid]);
    part[tid] = value * value;
    __syncthreads();
    for (int stride = DIM / 2; stride > 0; stride /= 2) {
        if (tid < stride)
            part[tid] += part[tid + stride];
        __syncthreads();
    }
    normal[(size_t)blockIdx.x * DIM + tid] = value / sqrtf(part[0] / DIM + eps) * __bfloat162float(weight[tid]);
}

extern "C" __global__ void rotate(const float *normal, const float *cos, const float *sin, __nv_bfloat16 *x, int heads,
                                  int count)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= count)
        return;
    int pair = i % (DIM / 2), head = i / (DIM / 2), token = head / heads;
    size_t at = (size_t)head * DIM + pair;
    float first = normal[at], second = normal[at + DIM / 2];
    float c = cos[token * DIM / 2 + pair], s = sin[token * DIM / 2 + pair];
    x[at] = __float2bfloat16(first * c - second * s);
    x[at + DIM / 2] = __float2bfloat16(second * c + first * s);
}
