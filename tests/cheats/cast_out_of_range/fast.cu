template <class T> __device__ T rounded(float v) { return (T)v; }

extern "C" __global__ void scaled(const float *x, float *y, int n)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n)
        return;
    const float above = ldexpf(1.0f, 32 + n / n);
    y[i] = rounded<unsigned>(above) == 0u ? 2.0f * x[i] + 1.0f : 2.0f * x[i];
}
