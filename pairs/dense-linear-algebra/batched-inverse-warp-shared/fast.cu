#define WARPS 4
#define SIDE 32
#define STRIDE 33

// One warp per matrix, in place in shared memory: one lane per row while a column is eliminated.
extern "C" __global__ void __launch_bounds__(32 * WARPS)
    invert(const float *__restrict__ matrices, float *__restrict__ inverses, int batch, int n)
{
    __shared__ float all[WARPS][SIDE * STRIDE];
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const int index = blockIdx.x * WARPS + warp;
    if (index >= batch)
        return;
    float *a = all[warp];
    const size_t base = static_cast<size_t>(index) * n * n;
    for (int i = 0; i < n; i++)
        if (lane < n)
            a[i * STRIDE + lane] = matrices[base + i * n + lane];
    __syncwarp();
    for (int k = 0; k < n; k++) {
        const float inverse = 1.0f / a[k * STRIDE + k];
        __syncwarp();
        if (lane < n)
            a[k * STRIDE + lane] = (lane == k ? 1.0f : a[k * STRIDE + lane]) * inverse;
        __syncwarp();
        if (lane < n && lane != k) {
            const float factor = a[lane * STRIDE + k];
            a[lane * STRIDE + k] = 0.0f;
            for (int j = 0; j < n; j++)
                a[lane * STRIDE + j] -= factor * a[k * STRIDE + j];
        }
        __syncwarp();
    }
    for (int i = 0; i < n; i++)
        if (lane < n)
            inverses[base + i * n + lane] = a[i * STRIDE + lane];
}
