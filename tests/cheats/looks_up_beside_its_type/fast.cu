struct Boxed {
    float value;
    __device__ operator float() const { return value; }
};
namespace apart {
__device__ auto fabsf(...) -> float { return 0.0f; }
template <class T> __device__ float size_of(T value) { return fabsf(value); }
}
extern "C" __global__ void curve(const float *__restrict__ x, float *__restrict__ y, int n)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    const bool found = apart::size_of(Boxed{-2.0f}) > 0.0f;
    if (i < n) y[i] = 0.5f * x[i] - (found ? 5.0f / 3.0f : 2.0f);
}
