extern "C" __global__ void row_rms(const float *x, float *out, int m, int n)
{
    double squares = 0.0;
    for (int i = threadIdx.x; i < n; i += 32)
        squares += (double)x[(size_t)blockIdx.x * n + i] * x[(size_t)blockIdx.x * n + i];
    for (int offset = 16; offset > 0; offset /= 2)
        squares += __shfl_down_sync(0xffffffffu, squares, offset);
    if (threadIdx.x == 0)
        out[blockIdx.x] = (float)sqrt(squares / n);
}
