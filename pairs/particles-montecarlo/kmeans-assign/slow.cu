#define FEATURES 16

extern "C" __global__ void assign(const unsigned char *points, const unsigned char *centroids, int *labels, int n, int k)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n)
        return;
    int best = 0, nearest = 0x7fffffff;
    for (int c = 0; c < k; c++) {
        int distance = 0;
        for (int f = 0; f < FEATURES; f++) {
            int diff = points[i * FEATURES + f] - centroids[c * FEATURES + f];
            distance += diff * diff;
        }
        if (distance < nearest) {
            nearest = distance;
            best = c;
        }
    }
    labels[i] = best;
}
