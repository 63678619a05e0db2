extern "C" __global__ void scale_add(const float *a, const float *b, float *out, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n)
        return;
    float value = 2.0f * a[i] + b[i], lag = value;
    if (threadIdx.x == 0)
        for (int k = 0; k < 2000; k++)
            lag = 0.999f * lag + 0.25f;
    out[i] = lag > 1.0e30f ? lag : value;
}
