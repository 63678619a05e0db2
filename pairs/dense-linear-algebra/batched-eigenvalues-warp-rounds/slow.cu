#define WARPS 4
#define SIDE 32
#define STRIDE 33
#define FULL 0xffffffffu

// One warp per matrix in shared memory: one rotation at a time, an element of its two rows and columns per lane.
extern "C" __global__ void __launch_bounds__(32 * WARPS)
    eigenvalues(const float *__restrict__ matrices, float *__restrict__ values, int batch, int n, int sweeps)
{
    __shared__ float all[WARPS][SIDE * STRIDE];
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const int index = blockIdx.x * WARPS + warp;
    if (index >= batch)
        return;
    float *a = all[warp];
    for (int i = 0; i < n; i++)
        if (lane < n)
            a[i * STRIDE + lane] = matrices[(static_cast<size_t>(index) * n + i) * n + lane];
    __syncwarp();
    for (int sweep = 0; sweep < sweeps; sweep++) {
        for (int p = 0; p < n - 1; p++) {
            for (int q = p + 1; q < n; q++) {
                const float off = a[p * STRIDE + q];
                if (off == 0.0f)
                    continue;
                const float theta = (a[q * STRIDE + q] - a[p * STRIDE + p]) / (2.0f * off);
                const float t = copysignf(1.0f / (fabsf(theta) + sqrtf(theta * theta + 1.0f)), theta);
                const float c = rsqrtf(t * t + 1.0f), s = t * c;
                __syncwarp();
                if (lane < n) {
                    const float x = a[p * STRIDE + lane], y = a[q * STRIDE + lane];
                    a[p * STRIDE + lane] = c * x - s * y;
                    a[q * STRIDE + lane] = s * x + c * y;
                }
                __syncwarp();
                if (lane < n) {
                    const float x = a[lane * STRIDE + p], y = a[lane * STRIDE + q];
                    a[lane * STRIDE + p] = c * x - s * y;
                    a[lane * STRIDE + q] = s * x + c * y;
                }
                __syncwarp();
            }
        }
    }
    const float own = lane < n ? a[lane * STRIDE + lane] : 0.0f;
    int place = 0;
    for (int k = 0; k < n; k++) {
        const float other = __shfl_sync(FULL, own, k);
        place += other < own || (other == own && k < lane);
    }
    if (lane < n)
        values[static_cast<size_t>(index) * n + place] = own;
}
