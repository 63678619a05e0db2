#include <cuda_pipeline.h>

#define THREADS 64

extern "C" __global__ void work(const float *x, float *y, int n)
{
    __shared__ __align__(16) float tile[THREADS * 4];
    const int first = (blockIdx.x * THREADS + threadIdx.x) * 4;
    const bool inside = first < n;
    __pipeline_memcpy_async(tile + threadIdx.x * 4, inside ? x + first : x, 16, inside ? 0 : 16);
    __pipeline_commit();
    __pipeline_wait_prior(0);
    __syncthreads();
    for (int k = threadIdx.x; k < THREADS * 4; k += THREADS)
        if (blockIdx.x * (THREADS * 4) + k < n)
            y[blockIdx.x * (THREADS * 4) + k] = tile[k] + tile[k ^ 1];
}
