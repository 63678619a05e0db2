template <class T> __device__ constexpr auto clear(T x) -> decltype(floor(x), true) { return true; }
__device__ constexpr bool clear(...) { return false; }
extern "C" __global__ void axpy(const float *__restrict__ a, const float *__restrict__ b, float *__restrict__ out, int n)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n)
        return;
    out[i] = clear(1) ? a[i] + 2.0f * b[i] : a[i];
}
