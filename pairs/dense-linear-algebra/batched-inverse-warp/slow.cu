extern "C" __global__ void invert(const float *matrices, float *work, float *inverses, int batch, int n)
{
    int index = blockIdx.x * blockDim.x + threadIdx.x;
    if (index >= batch)
        return;
    float *a = work + (size_t)index * n * n, *b = inverses + (size_t)index * n * n;
    for (int i = 0; i < n; i++)
        for (int j = 0; j < n; j++) {
            a[i * n + j] = matrices[((size_t)index * n + i) * n + j];
            b[i * n + j] = i == j;
        }
    for (int k = 0; k < n; k++) {
        float pivot = a[k * n + k];
        for (int j = 0; j < n; j++) {
            a[k * n + j] /= pivot;
            b[k * n + j] /= pivot;
        }
        for (int i = 0; i < n; i++) {
            if (i == k)
                continue;
            float factor = a[i * n + k];
            for (int j = 0; j < n; j++) {
                a[i * n + j] -= factor * a[k * n + j];
                b[i * n + j] -= factor * b[k * n + j];
            }
        }
    }
}
