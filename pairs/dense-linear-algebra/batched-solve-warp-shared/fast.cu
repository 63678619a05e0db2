#define WARPS 4
#define SIDE 32
#define STRIDE 33

// One warp per system in shared memory: one lane per row while a column is eliminated.
extern "C" __global__ void __launch_bounds__(32 * WARPS)
    solve(const float *__restrict__ matrices, const float *__restrict__ right, float *__restrict__ x, int batch, int n)
{
    __shared__ float all[WARPS][SIDE * STRIDE];
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const int system = blockIdx.x * WARPS + warp;
    if (system >= batch)
        return;
    float *a = all[warp];
    for (int i = 0; i < n; i++)
        if (lane < n)
            a[i * STRIDE + lane] = matrices[(static_cast<size_t>(system) * n + i) * n + lane];
    float value = lane < n ? right[static_cast<size_t>(system) * n + lane] : 0.0f;
    __syncwarp();
    for (int k = 0; k < n; k++) {
        const float pivot_value = __shfl_sync(0xffffffffu, value, k);
        if (lane < n && lane != k) {
            const float factor = a[lane * STRIDE + k] / a[k * STRIDE + k];
            for (int j = k + 1; j < n; j++)
                a[lane * STRIDE + j] -= factor * a[k * STRIDE + j];
            value -= factor * pivot_value;
        }
        __syncwarp();
    }
    if (lane < n)
        x[static_cast<size_t>(system) * n + lane] = value / a[lane * STRIDE + lane];
}
