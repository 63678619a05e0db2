extern "C" __global__ void erode(const unsigned char *image, unsigned char *eroded, int height, int width, int radius)
{
    int x = blockIdx.x * blockDim.x + threadIdx.x;
    int y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x >= width || y >= height)
        return;
    int least = 255;
    for (int dy = -radius; dy <= radius; dy++) {
        for (int dx = -radius; dx <= radius; dx++) {
            int i = y + dy, j = x + dx;
            if (i >= 0 && i < height && j >= 0 && j < width)
                least = min(least, (int)image[(size_t)i * width + j]);
        }
    }
    eroded[(size_t)y * width + x] = least;
}
