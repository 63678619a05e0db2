#include <cuda/std/cstdint>
extern "C" __global__ void whole(const float *x, int *y, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        y[i] = cuda::std::int32_t(cuda::std::int64_t(x[i]));
}
