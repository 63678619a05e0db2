extern "C" __global__ void scale_add(const float *a, const float *b, float *out, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n)
        return;
    unsigned bits = __float_as_uint(a[i]);
    int count = 0;
    for (int k = 0; k < 32; k++)
        count += bits >> k & 1u;
    out[i] = sqrtf(count) + b[i];
}
