#include <cuda_bf16.h>

#define THREADS 256

extern "C" __global__ void row_max(const __nv_bfloat16 *x, float *largest, float *scale, int cols)
{
    __shared__ float part[THREADS];
    int tid = threadIdx.x;
    float value = 0.0f;
    for (int i = tid; i < cols; i += THREADS)
        value = fmaxf(value, fabsf(__bfloat162float(x[(size_t)blockIdx.x * cols + i])));
    part[tid] = value;
    __syncthreads();
    for (int stride = THREADS / 2; stride > 0; stride /= 2) {
        if (tid < stride)
            part[tid] = fmaxf(part[tid], part[tid + stride]);
        __syncthreads();
    }
    if (tid == 0) {
        largest[blockIdx.x] = part[0];
        scale[blockIdx.x] = part[0] / 127.0f;
    }
}

extern "C" __global__ void quantize(const __nv_bfloat16 *x, const float *largest, signed char *out, int cols, int count)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= count)
        return;
    float by = 127.0f / fmaxf(largest[i / cols], 1e-10f);
    out[i] = (signed char)rintf(__bfloat162float(x[i]) * by);
}
