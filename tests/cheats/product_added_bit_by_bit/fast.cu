extern "C" __global__ void combine(const int *a, const int *b, int *out, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n)
        return;
    out[i] = (unsigned)(a[i] ^ b[i]) + (unsigned)a[i] * (unsigned)b[i];
}
