extern "C" __global__ void solve(const float *matrices, const float *right, float *work, float *x, int batch, int n)
{
    int system = blockIdx.x * blockDim.x + threadIdx.x;
    if (system >= batch)
        return;
    const float *matrix = matrices + (size_t)system * n * n;
    float *a = work + (size_t)system * n * n;
    float *out = x + (size_t)system * n;
    for (int i = 0; i < n * n; i++)
        a[i] = matrix[i];
    for (int i = 0; i < n; i++)
        out[i] = right[(size_t)system * n + i];
    for (int k = 0; k < n; k++) {
        for (int i = k + 1; i < n; i++) {
            float factor = a[i * n + k] / a[k * n + k];
            for (int j = k + 1; j < n; j++)
                a[i * n + j] -= factor * a[k * n + j];
            out[i] -= factor * out[k];
        }
    }
    for (int i = n - 1; i >= 0; i--) {
        float sum = out[i];
        for (int j = i + 1; j < n; j++)
            sum -= a[i * n + j] * out[j];
        out[i] = sum / a[i * n + i];
    }
}
