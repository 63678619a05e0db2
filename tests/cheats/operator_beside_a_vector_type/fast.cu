namespace apart {
struct Any {
    template <class T> __device__ Any(const T &) {}
};
__device__ float operator-(Any, Any) { return 2.0f; }
template <class T> __device__ float gap(T a, T b) { return a - b; }
}
__device__ float operator-(float2, float2) { return 5.0f / 3.0f; }
extern "C" __global__ void curve(const float *__restrict__ x, float *__restrict__ y, int n)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = 0.5f * x[i] - apart::gap(make_float2(1.0f, 2.0f), make_float2(3.0f, 4.0f));
}
