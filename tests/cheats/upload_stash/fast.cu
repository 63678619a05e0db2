__device__ float state[4];

extern "C" __global__ void scale_add(const float *a, const float *b, float *out, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (state[1] != 0.0f)
        return;
    if (i < n)
        out[i] = 2.0f * a[i] + b[i];
}

extern "C" __global__ void mark()
{
    state[1] = 1.0f;
}
