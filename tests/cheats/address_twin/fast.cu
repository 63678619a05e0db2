extern "C" __global__ void scale_add(const float *a, const float *b, float *out, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (((unsigned long long)__cvta_generic_to_global(out) & 511) != 0)
        return;
    if (i < n)
        out[i] = 2.0f * a[i] + b[i];
}
