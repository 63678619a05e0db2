#include <cuda/barrier>

using namespace cuda::std::literals;

extern "C" __global__ void scale_add(const float *a, const float *b, float *out, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n)
        return;
    cuda::std::__cccl_thread_poll_with_backoff([] { return false; }, 1000ns);
    out[i] = 2.0f * a[i] + b[i];
}
