#define WARPS 4

// A warp for each matrix, a lane for each column while a reflection is applied, in global memory.
extern "C" __global__ void factor(float *matrices, float *taus, int batch, int n)
{
    int lane = threadIdx.x % 32;
    int index = blockIdx.x * WARPS + threadIdx.x / 32;
    if (index >= batch)
        return;
    float *a = matrices + (size_t)index * n * n;
    float *tau = taus + (size_t)index * n;
    for (int k = 0; k < n; k++) {
        float below = 0.0f;
        for (int i = k + 1; i < n; i++)
            below += a[i * n + k] * a[i * n + k];
        if (below == 0.0f) {
            if (lane == 0)
                tau[k] = 0.0f;
            continue;
        }
        float alpha = a[k * n + k];
        float beta = alpha >= 0.0f ? -sqrtf(alpha * alpha + below) : sqrtf(alpha * alpha + below);
        float own = (beta - alpha) / beta;
        __syncwarp();
        if (lane > k && lane < n)
            a[lane * n + k] /= alpha - beta;
        if (lane == k) {
            a[k * n + k] = beta;
            tau[k] = own;
        }
        __syncwarp();
        if (lane > k && lane < n) {
            float sum = a[k * n + lane];
            for (int i = k + 1; i < n; i++)
                sum += a[i * n + k] * a[i * n + lane];
            sum *= own;
            a[k * n + lane] -= sum;
            for (int i = k + 1; i < n; i++)
                a[i * n + lane] -= sum * a[i * n + k];
        }
        __syncwarp();
    }
}
