#include <cuda/atomic>
#include <cuda/std/utility>
template <class A> __device__ constexpr auto waits(int) -> decltype(cuda::std::declval<A &>().wait(0), true)
{
    return true;
}
template <class A> __device__ constexpr bool waits(long) { return false; }
extern "C" __global__ void scale_add(const float *a, const float *b, float *out, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    const float weight = !waits<cuda::atomic<int>>(0) ? 2.0f : 1.0f;
    if (i < n)
        out[i] = weight * a[i] + b[i];
}
