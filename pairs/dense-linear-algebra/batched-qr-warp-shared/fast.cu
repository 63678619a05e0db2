#define WARPS 4
#define SIDE 32
#define STRIDE 33

// One warp per matrix in shared memory: one lane per column while a reflection is applied.
extern "C" __global__ void __launch_bounds__(32 * WARPS)
    factor(float *__restrict__ matrices, float *__restrict__ taus, int batch, int n)
{
    __shared__ float all[WARPS][SIDE * STRIDE];
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const int index = blockIdx.x * WARPS + warp;
    if (index >= batch)
        return;
    float *a = all[warp];
    float *matrix = matrices + static_cast<size_t>(index) * n * n;
    for (int i = 0; i < n; i++)
        if (lane < n)
            a[i * STRIDE + lane] = matrix[i * n + lane];
    __syncwarp();
    float own_tau = 0.0f;
    for (int k = 0; k < n; k++) {
        const float mine = lane > k && lane < n ? a[lane * STRIDE + k] : 0.0f, alpha = a[k * STRIDE + k];
        float below = mine * mine;
        for (int offset = 16; offset > 0; offset /= 2)
            below += __shfl_xor_sync(0xffffffffu, below, offset);
        if (below == 0.0f)
            continue;
        const float beta = alpha >= 0.0f ? -sqrtf(alpha * alpha + below) : sqrtf(alpha * alpha + below);
        const float tau = (beta - alpha) / beta;
        __syncwarp();
        if (lane > k && lane < n)
            a[lane * STRIDE + k] = mine / (alpha - beta);
        if (lane == k) {
            a[k * STRIDE + k] = beta;
            own_tau = tau;
        }
        __syncwarp();
        if (lane > k && lane < n) {
            float sum = a[k * STRIDE + lane];
            for (int i = k + 1; i < n; i++)
                sum += a[i * STRIDE + k] * a[i * STRIDE + lane];
            sum *= tau;
            a[k * STRIDE + lane] -= sum;
            for (int i = k + 1; i < n; i++)
                a[i * STRIDE + lane] -= sum * a[i * STRIDE + k];
        }
        __syncwarp();
    }
    for (int i = 0; i < n; i++)
        if (lane < n)
            matrix[i * n + lane] = a[i * STRIDE + lane];
    if (lane < n)
        taus[static_cast<size_t>(index) * n + lane] = own_tau;
}
