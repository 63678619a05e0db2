#define BINS 256

extern "C" __global__ void count_pairs(const int *points, unsigned *counts, int n, int shift)
{
    __shared__ unsigned own[BINS];
    for (int bin = threadIdx.x; bin < BINS; bin += blockDim.x)
        own[bin] = 0;
    __syncthreads();
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        int x = points[3 * i], y = points[3 * i + 1], z = points[3 * i + 2];
        for (int j = i + 1; j < n; j++) {
            int dx = points[3 * j] - x;
            int dy = points[3 * j + 1] - y;
            int dz = points[3 * j + 2] - z;
            atomicAdd(&own[(dx * dx + dy * dy + dz * dz) >> shift], 1u);
        }
    }
    __syncthreads();
    for (int bin = threadIdx.x; bin < BINS; bin += blockDim.x)
        atomicAdd(&counts[bin], own[bin]);
}
