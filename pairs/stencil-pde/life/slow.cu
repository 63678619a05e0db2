extern "C" __global__ void step(const unsigned char *cells, unsigned char *next, int height, int width)
{
    int x = blockIdx.x * blockDim.x + threadIdx.x;
    int y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x >= width || y >= height)
        return;
    int alive = 0;
    for (int dy = -1; dy <= 1; dy++)
        for (int dx = -1; dx <= 1; dx++)
            if ((dx != 0 || dy != 0) && y + dy >= 0 && y + dy < height && x + dx >= 0 && x + dx < width)
                alive += cells[(size_t)(y + dy) * width + x + dx];
    next[(size_t)y * width + x] = alive == 3 || (alive == 2 && cells[(size_t)y * width + x]);
}
