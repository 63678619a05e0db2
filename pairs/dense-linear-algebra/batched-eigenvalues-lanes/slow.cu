extern "C" __global__ void eigenvalues(const float *matrices, float *work, float *values, int batch, int n, int sweeps)
{
    int index = blockIdx.x * blockDim.x + threadIdx.x;
    if (index >= batch)
        return;
    float *a = work + (size_t)index * n * n;
    float *out = values + (size_t)index * n;
    for (int i = 0; i < n * n; i++)
        a[i] = matrices[(size_t)index * n * n + i];
    for (int sweep = 0; sweep < sweeps; sweep++) {
        for (int p = 0; p < n - 1; p++) {
            for (int q = p + 1; q < n; q++) {
                float off = a[p * n + q];
                if (off == 0.0f)
                    continue;
                float theta = (a[q * n + q] - a[p * n + p]) / (2.0f * off);
                float t = 1.0f / (fabsf(theta) + sqrtf(theta * theta + 1.0f));
                if (theta < 0.0f)
                    t = -t;
                float c = 1.0f / sqrtf(t * t + 1.0f), s = t * c;
                for (int j = 0; j < n; j++) {
                    float x = a[p * n + j], y = a[q * n + j];
                    a[p * n + j] = c * x - s * y;
                    a[q * n + j] = s * x + c * y;
                }
                for (int j = 0; j < n; j++) {
                    float x = a[j * n + p], y = a[j * n + q];
                    a[j * n + p] = c * x - s * y;
                    a[j * n + q] = s * x + c * y;
                }
            }
        }
    }
    for (int i = 0; i < n; i++) {
        float value = a[i * n + i];
        int j = i;
        for (; j > 0 && out[j - 1] > value; j--)
            out[j] = out[j - 1];
        out[j] = value;
    }
}
