extern "C" __global__ void row_rms(const float *x, float *out, int m, int n)
{
    int row = blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= m)
        return;
    float squares = 0.0f;
    for (int i = 0; i < n; i++)
        squares += x[(size_t)row * n + i] * x[(size_t)row * n + i];
    out[row] = sqrtf(squares / n);
}
