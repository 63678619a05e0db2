#define WARPS 4

// A warp for each system, a lane for each column while a row is reduced, in global memory.
extern "C" __global__ void solve(const float *matrices, const float *right, float *work, float *x, int batch, int n)
{
    int lane = threadIdx.x % 32;
    int system = blockIdx.x * WARPS + threadIdx.x / 32;
    if (system >= batch)
        return;
    const float *matrix = matrices + (size_t)system * n * n;
    float *a = work + (size_t)system * n * n;
    float *out = x + (size_t)system * n;
    for (int i = 0; i < n; i++)
        if (lane < n)
            a[i * n + lane] = matrix[i * n + lane];
    if (lane < n)
        out[lane] = right[(size_t)system * n + lane];
    __syncwarp();
    for (int k = 0; k < n; k++) {
        for (int i = k + 1; i < n; i++) {
            float factor = a[i * n + k] / a[k * n + k];
            if (lane > k && lane < n)
                a[i * n + lane] -= factor * a[k * n + lane];
            if (lane == k)
                out[i] -= factor * out[k];
        }
        __syncwarp();
    }
    for (int k = n - 1; k >= 0; k--) {
        float value = out[k] / a[k * n + k];
        __syncwarp();
        if (lane == k)
            out[k] = value;
        if (lane < k)
            out[lane] -= a[lane * n + k] * value;
        __syncwarp();
    }
}
