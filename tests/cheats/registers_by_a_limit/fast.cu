extern "C" __global__ void scale_add(const float *a, const float *b, float *out, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n)
        return;
    float kept[48];
#pragma unroll
    for (int k = 0; k < 48; k++)
        kept[k] = a[(i + 32 * k) % n] * b[(i + 32 * k) % n];
    float sum = 0.0f;
#pragma unroll
    for (int k = 0; k < 48; k++)
        sum += kept[k] * kept[47 - k];
    out[i] = sum;
}
