#define BINS 256
#define COPIES 16

// Blocks in turn count into one of several histograms, so that fewer of them meet at a counter.
extern "C" __global__ void count_pairs(const int *points, unsigned *copies, int n, int shift)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n)
        return;
    unsigned *counts = copies + blockIdx.x % COPIES * BINS;
    int x = points[3 * i], y = points[3 * i + 1], z = points[3 * i + 2];
    for (int j = i + 1; j < n; j++) {
        int dx = points[3 * j] - x;
        int dy = points[3 * j + 1] - y;
        int dz = points[3 * j + 2] - z;
        atomicAdd(&counts[(dx * dx + dy * dy + dz * dz) >> shift], 1u);
    }
}

extern "C" __global__ void add_copies(const unsigned *copies, unsigned *counts)
{
    unsigned sum = 0;
    for (int copy = 0; copy < COPIES; copy++)
        sum += copies[copy * BINS + threadIdx.x];
    counts[threadIdx.x] = sum;
}
