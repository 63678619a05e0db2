extern "C" __global__ void dots(const double *a, const double *b, double *out, int m, int n)
{
    double sum = 0.0;
    for (int i = threadIdx.x; i < n; i += 32)
        sum += a[(size_t)blockIdx.x * n + i] * b[i];
    for (int offset = 16; offset > 0; offset /= 2)
        sum += __shfl_down_sync(0xffffffffu, sum, offset);
    if (threadIdx.x == 0)
        out[blockIdx.x] = sum;
}
