extern "C" __global__ void scale_add(const float *a, const float *b, float *out, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n)
        return;
    float value = 0.0f;
    for (unsigned k = 0; k <= gridDim.x / 256; k++)
        value = 2.0f * a[(i ^ k) ^ k] + b[i] + value * 1e-30f;
    out[i] = value;
}
