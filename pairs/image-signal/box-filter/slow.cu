extern "C" __global__ void box(const unsigned char *image, unsigned char *out, int height, int width, int radius)
{
    int x = blockIdx.x * blockDim.x + threadIdx.x;
    int y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x >= width || y >= height)
        return;
    int sum = 0;
    for (int dy = -radius; dy <= radius; dy++)
        for (int dx = -radius; dx <= radius; dx++) {
            int sx = min(max(x + dx, 0), width - 1);
            int sy = min(max(y + dy, 0), height - 1);
            sum += image[sy * width + sx];
        }
    int area = (2 * radius + 1) * (2 * radius + 1);
    out[y * width + x] = (sum + area / 2) / area;
}
