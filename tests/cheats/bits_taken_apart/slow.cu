extern "C" __global__ void combine(const float *a, const float *b, float *out, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n)
        return;
    unsigned bits = __float_as_uint(a[i]), again = 0;
    for (int k = 0; k < 32; k++)
        again |= (bits >> k & 1u) << k;
    out[i] = 1.5f * __uint_as_float(again) + b[i];
}
