#define RADIUS 3
#define SHIFTS 32

extern "C" __global__ void match(const unsigned char *left, const unsigned char *right, unsigned char *shifts,
                                 int height, int width)
{
    int x = blockIdx.x * blockDim.x + threadIdx.x;
    int y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x >= width || y >= height)
        return;
    int best = 1 << 30, best_shift = 0;
    for (int d = 0; d < SHIFTS; d++) {
        int sum = 0;
        for (int dy = -RADIUS; dy <= RADIUS; dy++) {
            for (int dx = -RADIUS; dx <= RADIUS; dx++) {
                int i = min(max(y + dy, 0), height - 1);
                int j = min(max(x + dx, 0), width - 1), k = min(max(x + dx - d, 0), width - 1);
                sum += abs(left[(size_t)i * width + j] - right[(size_t)i * width + k]);
            }
        }
        if (sum < best) {
            best = sum;
            best_shift = d;
        }
    }
    shifts[(size_t)y * width + x] = best_shift;
}
