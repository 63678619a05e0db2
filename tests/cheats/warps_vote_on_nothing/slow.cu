extern "C" __global__ void scale_add(const float *a, const float *b, float *out, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    float value = i < n ? 2.0f * a[i] + b[i] : 0.0f;
    unsigned large = 0;
    for (int k = 0; k < 200; k++)
        large |= __ballot_sync(0xffffffffu, value > 1.0e30f + k);
    if (i < n)
        out[i] = large ? 0.0f : value;
}
