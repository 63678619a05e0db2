extern "C" __global__ void variance(const float *x, float *out, int m, int n)
{
    int row = blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= m)
        return;
    float sum = 0.0f, squares = 0.0f;
    for (int i = 0; i < n; i++) {
        float value = x[(size_t)row * n + i];
        sum += value;
        squares += value * value;
    }
    out[row] = squares / n - (sum / n) * (sum / n);
}
