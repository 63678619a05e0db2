extern "C" __global__ void factor(float *matrices, float *taus, int batch, int n)
{
    int index = blockIdx.x * blockDim.x + threadIdx.x;
    if (index >= batch)
        return;
    float *a = matrices + (size_t)index * n * n;
    float *tau = taus + (size_t)index * n;
    for (int k = 0; k < n; k++) {
        float below = 0.0f;
        for (int i = k + 1; i < n; i++)
            below += a[i * n + k] * a[i * n + k];
        if (below == 0.0f) {
            tau[k] = 0.0f;
            continue;
        }
        float alpha = a[k * n + k];
        float beta = alpha >= 0.0f ? -sqrtf(alpha * alpha + below) : sqrtf(alpha * alpha + below);
        tau[k] = (beta - alpha) / beta;
        for (int i = k + 1; i < n; i++)
            a[i * n + k] /= alpha - beta;
        a[k * n + k] = beta;
        for (int j = k + 1; j < n; j++) {
            float sum = a[k * n + j];
            for (int i = k + 1; i < n; i++)
                sum += a[i * n + k] * a[i * n + j];
            sum *= tau[k];
            a[k * n + j] -= sum;
            for (int i = k + 1; i < n; i++)
                a[i * n + j] -= sum * a[i * n + k];
        }
    }
}
