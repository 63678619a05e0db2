#define FAR 30000

extern "C" __global__ void columns(const unsigned char *image, int *gaps, int height, int width, int limit)
{
    int x = blockIdx.x * blockDim.x + threadIdx.x;
    if (x >= width)
        return;
    int gap = FAR;
    for (int y = 0; y < height; y++) {
        gap = image[(size_t)y * width + x] < limit ? 0 : min(gap + 1, FAR);
        gaps[(size_t)y * width + x] = gap;
    }
    gap = FAR;
    for (int y = height - 1; y >= 0; y--) {
        gap = min(gap + 1, gaps[(size_t)y * width + x]);
        gaps[(size_t)y * width + x] = gap;
    }
}

extern "C" __global__ void rows(const int *gaps, int *squares, int height, int width)
{
    int x = blockIdx.x * blockDim.x + threadIdx.x;
    int y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x >= width || y >= height)
        return;
    int best = 2147483647;
    for (int j = 0; j < width; j++) {
        int gap = gaps[(size_t)y * width + j];
        best = min(best, (x - j) * (x - j) + gap * gap);
    }
    squares[(size_t)y * width + x] = best;
}
