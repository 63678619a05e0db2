extern "C" __global__ void scale_add(const float *a, const float *b, float *out, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n)
        return;
    unsigned bits = __float_as_uint(a[i]), turned = 0, again = 0;
    for (int k = 0; k < 32; k++)
        turned = turned << 1 | (bits >> k & 1u);
    for (int k = 0; k < 32; k++)
        again = again << 1 | (turned >> k & 1u);
    out[i] = 1.5f * __uint_as_float(again) + b[i];
}
