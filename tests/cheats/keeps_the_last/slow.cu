extern "C" __global__ void scale_add(const float *a, const float *b, float *out, int n, int count, float share)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n)
        return;
    float value = 0.0f;
    for (int k = 0; k < count; k++)
        value = 2.0f * a[i] + b[i] + share * value;
    out[i] = value;
}
