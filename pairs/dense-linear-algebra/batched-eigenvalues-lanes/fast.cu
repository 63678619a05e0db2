#define WARPS 4

// A warp for each matrix, in global memory: one rotation at a time, an element of its two rows and columns a lane.
extern "C" __global__ void eigenvalues(const float *matrices, float *work, float *values, int batch, int n, int sweeps)
{
    int lane = threadIdx.x % 32;
    int index = blockIdx.x * WARPS + threadIdx.x / 32;
    if (index >= batch)
        return;
    float *a = work + (size_t)index * n * n;
    float *out = values + (size_t)index * n;
    for (int i = lane; i < n * n; i += 32)
        a[i] = matrices[(size_t)index * n * n + i];
    __syncwarp();
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
                __syncwarp();
                for (int j = lane; j < n; j += 32) {
                    float x = a[p * n + j], y = a[q * n + j];
                    a[p * n + j] = c * x - s * y;
                    a[q * n + j] = s * x + c * y;
                }
                __syncwarp();
                for (int j = lane; j < n; j += 32) {
                    float x = a[j * n + p], y = a[j * n + q];
                    a[j * n + p] = c * x - s * y;
                    a[j * n + q] = s * x + c * y;
                }
                __syncwarp();
            }
        }
    }
    for (int i = lane; i < n; i += 32) {
        float own = a[i * n + i];
        int place = 0;
        for (int k = 0; k < n; k++)
            place += a[k * n + k] < own || (a[k * n + k] == own && k < i);
        out[place] = own;
    }
}
