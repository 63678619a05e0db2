extern "C" __global__ void add_bias(const float *in, const float *bias, float *out, int cols, int count)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < count)
        out[i] = in[i] + bias[i % cols];
}

extern "C" __global__ void gelu(float *out, int count)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < count)
        out[i] = 0.5f * out[i] * (1.0f + erff(out[i] * 0.70710678f));
}

extern "C" __global__ void add_residual(const float *residual, float *out, int count)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < count)
        out[i] += residual[i];
}
