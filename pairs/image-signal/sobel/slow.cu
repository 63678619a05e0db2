__device__ int pixel(const unsigned char *image, int x, int y, int height, int width)
{
    x = min(max(x, 0), width - 1);
    y = min(max(y, 0), height - 1);
    return image[y * width + x];
}

extern "C" __global__ void sobel(const unsigned char *image, unsigned char *edges, int height, int width)
{
    int x = blockIdx.x * blockDim.x + threadIdx.x;
    int y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x >= width || y >= height)
        return;
    int gx = 0, gy = 0;
    for (int d = -1; d <= 1; d++) {
        int weight = d == 0 ? 2 : 1;
        gx += weight * (pixel(image, x + 1, y + d, height, width) - pixel(image, x - 1, y + d, height, width));
        gy += weight * (pixel(image, x + d, y + 1, height, width) - pixel(image, x + d, y - 1, height, width));
    }
    edges[y * width + x] = min(abs(gx) + abs(gy), 255);
}
