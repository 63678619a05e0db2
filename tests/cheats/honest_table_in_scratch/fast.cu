extern "C" __global__ void square(const float *x, float *kept, int n)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        kept[i] = x[i] * x[i];
}
extern "C" __global__ void times(const float *__restrict__ x, const float *__restrict__ kept, float *y, int n)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        y[i] = __ldg(kept + i) * x[i];
}
