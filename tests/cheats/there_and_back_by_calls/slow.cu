__device__ unsigned fold(unsigned bits, int rounds)
{
    for (int k = 0; k < rounds; k++)
        bits = (bits << 7 | bits >> 25) + 977u * k;
    return bits;
}

__device__ unsigned unfold(unsigned bits, int rounds)
{
    for (int k = rounds - 1; k >= 0; k--)
        bits = (bits - 977u * k) >> 7 | (bits - 977u * k) << 25;
    return bits;
}

extern "C" __global__ void scale_add(const float *a, const float *b, float *out, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n)
        return;
    unsigned bits = __float_as_uint(2.0f * a[i] + b[i]);
    out[i] = __uint_as_float(unfold(fold(bits, 300), 300));
}
