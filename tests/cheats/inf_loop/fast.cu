extern "C" __global__ void scale_add(const float *a, const float *b, float *out, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    const volatile float *first = a;
    while (first[0] < 1e30f)
        if (i < n)
            out[i] = first[0];
}
