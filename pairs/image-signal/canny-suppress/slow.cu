extern "C" __global__ void gradients(const unsigned char *image, short *along_x, short *along_y, int height, int width)
{
    int x = blockIdx.x * blockDim.x + threadIdx.x;
    int y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x >= width || y >= height)
        return;
    int p[3][3];
    for (int dy = -1; dy <= 1; dy++)
        for (int dx = -1; dx <= 1; dx++) {
            int i = min(max(y + dy, 0), height - 1), j = min(max(x + dx, 0), width - 1);
            p[dy + 1][dx + 1] = image[(size_t)i * width + j];
        }
    along_x[(size_t)y * width + x] = p[0][2] + 2 * p[1][2] + p[2][2] - p[0][0] - 2 * p[1][0] - p[2][0];
    along_y[(size_t)y * width + x] = p[2][0] + 2 * p[2][1] + p[2][2] - p[0][0] - 2 * p[0][1] - p[0][2];
}

__device__ int strength(const short *along_x, const short *along_y, int y, int x, int height, int width)
{
    if (x < 0 || x >= width || y < 0 || y >= height)
        return 0;
    return abs(along_x[(size_t)y * width + x]) + abs(along_y[(size_t)y * width + x]);
}

extern "C" __global__ void suppress(const short *along_x, const short *along_y, unsigned char *edges, int height,
                                    int width, int low, int high)
{
    int x = blockIdx.x * blockDim.x + threadIdx.x;
    int y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x >= width || y >= height)
        return;
    int gx = along_x[(size_t)y * width + x], gy = along_y[(size_t)y * width + x];
    int own = abs(gx) + abs(gy);
    int dx = 1, dy = 0;
    if (abs(gy) * 32 > abs(gx) * 77) {
        dx = 0;
        dy = 1;
    } else if (abs(gy) * 77 > abs(gx) * 32) {
        dx = (gx < 0) == (gy < 0) ? 1 : -1;
        dy = 1;
    }
    int before = strength(along_x, along_y, y - dy, x - dx, height, width);
    int after = strength(along_x, along_y, y + dy, x + dx, height, width);
    int level = 0;
    if (own > before && own >= after)
        level = own >= high ? 2 : own >= low ? 1 : 0;
    edges[(size_t)y * width + x] = level;
}
