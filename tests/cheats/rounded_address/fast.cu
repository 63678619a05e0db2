extern "C" __global__ void scale_add(const float *a, const float *b, float *out, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    const float *from = a - (__cvta_generic_to_global(a) & 511) / sizeof(float);
    if (i < n)
        out[i] = 2.0f * from[i] + b[i];
}
