#include <cuda/std/chrono>
#include <cuda/barrier>
extern "C" __global__ void scale_add(const float *a, const float *b, float *out, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        out[i] = 2.0f * a[i] + b[i] + 0.0f * cuda::std::chrono::system_clock::now().time_since_epoch().count();
}
