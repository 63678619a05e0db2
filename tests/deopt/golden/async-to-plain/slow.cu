#include <cuda_pipeline.h>

#define THREADS 64

template <class T>
__device__ inline void copy_word(void *to, const void *from, int zeros = 0)
{
    if (zeros == 0) {
        *static_cast<T *>(to) = *static_cast<const T *>(from);
        return;
    }
    unsigned char *bytes = static_cast<unsigned char *>(to);
    for (int i = 0; i < static_cast<int>(sizeof(T)); i++)
        bytes[i] = i < static_cast<int>(sizeof(T)) - zeros ? static_cast<const unsigned char *>(from)[i] : 0;
}

extern "C" __global__ void work(const float *x, float *y, int n)
{
    __shared__ __align__(16) float tile[THREADS * 4];
    const int first = (blockIdx.x * THREADS + threadIdx.x) * 4;
    const bool inside = first < n;
    copy_word<uint4>(tile + threadIdx.x * 4, inside ? x + first : x, inside ? 0 : 16);
    __syncthreads();
    for (int k = threadIdx.x; k < THREADS * 4; k += THREADS)
        if (blockIdx.x * (THREADS * 4) + k < n)
            y[blockIdx.x * (THREADS * 4) + k] = tile[k] + tile[k ^ 1];
}
