#define WARPS 4

// A warp for each matrix, a lane for each column, with the identity beside it in global memory.
extern "C" __global__ void invert(const float *matrices, float *work, float *inverses, int batch, int n)
{
    int lane = threadIdx.x % 32;
    int index = blockIdx.x * WARPS + threadIdx.x / 32;
    if (index >= batch)
        return;
    float *a = work + (size_t)index * n * n, *b = inverses + (size_t)index * n * n;
    for (int i = 0; i < n; i++)
        if (lane < n) {
            a[i * n + lane] = matrices[((size_t)index * n + i) * n + lane];
            b[i * n + lane] = i == lane;
        }
    __syncwarp();
    for (int k = 0; k < n; k++) {
        float pivot = a[k * n + k];
        __syncwarp();
        if (lane < n) {
            a[k * n + lane] /= pivot;
            b[k * n + lane] /= pivot;
        }
        __syncwarp();
        for (int i = 0; i < n; i++) {
            if (i == k)
                continue;
            float factor = a[i * n + k];
            __syncwarp();
            if (lane < n) {
                a[i * n + lane] -= factor * a[k * n + lane];
                b[i * n + lane] -= factor * b[k * n + lane];
            }
        }
        __syncwarp();
    }
}
