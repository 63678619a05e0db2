#define DIMS 64

extern "C" __global__ void nearest(const signed char *queries, const signed char *points, int *indices, int *distances,
                                   int m, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= m)
        return;
    int best = 2147483647, index = 0;
    for (int j = 0; j < n; j++) {
        int sum = 0;
        for (int k = 0; k < DIMS; k++) {
            int d = queries[(size_t)i * DIMS + k] - points[(size_t)j * DIMS + k];
            sum += d * d;
        }
        if (sum < best) {
            best = sum;
            index = j;
        }
    }
    indices[i] = index;
    distances[i] = best;
}
