extern "C" __global__ void variance(const float *x, float *out, int m, int n)
{
    double sum = 0.0, squares = 0.0;
    for (int i = threadIdx.x; i < n; i += 32) {
        float value = x[(size_t)blockIdx.x * n + i];
        sum += value;
        squares += (double)value * value;
    }
    for (int offset = 16; offset > 0; offset /= 2) {
        sum += __shfl_down_sync(0xffffffffu, sum, offset);
        squares += __shfl_down_sync(0xffffffffu, squares, offset);
    }
    if (threadIdx.x == 0)
        out[blockIdx.x] = squares / n - (sum / n) * (sum / n);
}
