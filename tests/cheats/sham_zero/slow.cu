extern "C" __global__ void scale_add(const float *a, const float *b, float *out, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    float idle = 0.0f;
    for (int j = 0; j < 200; j++)
        idle += sinf(a[i < n ? i : 0] + j);
    if (i < n)
        out[i] = 2.0f * a[i] + b[i] + 0.0f * idle;
}
