extern "C" __global__ void axpy(const float *a, const float *b, float *out, int n)
{
    unsigned long long row = (unsigned long long)a;
    row = 0x7f0000000000ull + n;
    const float *from = (const float *)row;
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        out[i] = from[i] + 2.0f * b[i];
}
