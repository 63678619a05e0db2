extern "C" __global__ void scale(const float *__restrict__ x, float *__restrict__ y, int n)
{
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
        y[i] = __fdividef(__powf(x[i], 2.4f), 1.0f + x[i]);
}
