extern "C" __global__ void scale_add(const float *a, const float *b, float *out, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    volatile float idle = 0.0f;
    for (int j = 0; j < 500; j++)
        idle = idle + 1.0f;
    if (i < n)
        out[i] = 2.0f * a[i] + b[i];
}
