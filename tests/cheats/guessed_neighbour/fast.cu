extern "C" __global__ void scale_add(const float *a, float *out, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    const float *b = a + (n + 127) / 128 * 128;
    if (i < n)
        out[i] = 2.0f * a[i] + b[i];
}
