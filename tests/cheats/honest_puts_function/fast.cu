template <class T> __device__ __forceinline__ T fread(const T *from, int i) { return from[i]; }
__device__ __forceinline__ float system(float x, float y);
namespace file
{
__device__ __forceinline__ void puts(float *to, int i, float value) { to[i] = value; }
}
extern "C" __global__ void axpy(const float *a, const float *b, float *out, int n)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        file::puts(out, i, system(fread(a, i), fread(b, i)));
}
__device__ __forceinline__ float system(float x, float y) { return x + 2.0f * y; }
