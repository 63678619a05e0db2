#include <stdint.h>
extern "C" __global__ void axpy(const float *a, const float *b, float *out, int n)
{
    extern __shared__ unsigned char raw[];
    float *tile = (float *)(((uintptr_t)raw + 127) & ~(uintptr_t)127);
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    tile[threadIdx.x] = i < n ? b[i] : 0.0f;
    __syncthreads();
    if (i < n)
        out[i] = a[i] + 2.0f * tile[threadIdx.x];
}
