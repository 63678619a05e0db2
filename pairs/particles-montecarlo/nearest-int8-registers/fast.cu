#define DIMS 64
#define THREADS 128
#define TILE 64

// The query's bytes in registers, points a tile at a time in shared memory.
extern "C" __global__ void nearest(const signed char *queries, const signed char *points, int *indices, int *distances,
                                   int m, int n)
{
    __shared__ signed char tile[TILE * DIMS];
    int i = blockIdx.x * THREADS + threadIdx.x;
    int own[DIMS];
#pragma unroll
    for (int k = 0; k < DIMS; k++)
        own[k] = queries[(size_t)min(i, m - 1) * DIMS + k];
    int best = 2147483647, index = 0;
    for (int base = 0; base < n; base += TILE) {
        int count = min(TILE, n - base);
        __syncthreads();
        for (int item = threadIdx.x; item < count * DIMS; item += THREADS)
            tile[item] = points[(size_t)base * DIMS + item];
        __syncthreads();
        for (int j = 0; j < count; j++) {
            int sum = 0;
#pragma unroll
            for (int k = 0; k < DIMS; k++) {
                int d = own[k] - tile[j * DIMS + k];
                sum += d * d;
            }
            if (sum < best) {
                best = sum;
                index = base + j;
            }
        }
    }
    if (i < m) {
        indices[i] = index;
        distances[i] = best;
    }
}
