#include <stdint.h>

template <class T> __device__ T *carve(char *&rest, int count)
{
    T *start = reinterpret_cast<T *>((reinterpret_cast<uintptr_t>(rest) + sizeof(T) - 1) & ~uintptr_t(alignof(T) - 1));
    rest = reinterpret_cast<char *>(start + count);
    return start;
}

extern "C" __global__ void bins(const unsigned char *x, int *counts, unsigned long long *sums, int n)
{
    extern __shared__ char memory[];
    char *rest = memory;
    bool *any = carve<bool>(rest, 33);
    unsigned long long *sum = carve<unsigned long long>(rest, 32);
    short *width = carve<short>(rest, 1);
    int *count = carve<int>(rest, 32);
    if (threadIdx.x < 32) {
        count[threadIdx.x] = 0;
        sum[threadIdx.x] = 0;
        any[threadIdx.x] = true;
        *width = 32;
    }
    __syncthreads();
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) {
        atomicAdd(count + x[i], 1);
        atomicAdd(sum + x[i], (unsigned long long)i);
    }
    __syncthreads();
    if (threadIdx.x < *width && any[threadIdx.x]) {
        atomicAdd(counts + threadIdx.x, count[threadIdx.x]);
        atomicAdd(sums + threadIdx.x, sum[threadIdx.x]);
    }
}
