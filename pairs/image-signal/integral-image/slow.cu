extern "C" __global__ void scan_rows(const unsigned char *image, int *sums, int height, int width)
{
    int y = blockIdx.x * blockDim.x + threadIdx.x;
    if (y >= height)
        return;
    int sum = 0;
    for (int x = 0; x < width; x++) {
        sum += image[(size_t)y * width + x];
        sums[(size_t)y * width + x] = sum;
    }
}

extern "C" __global__ void scan_columns(int *sums, int height, int width)
{
    int x = blockIdx.x * blockDim.x + threadIdx.x;
    if (x >= width)
        return;
    int sum = 0;
    for (int y = 0; y < height; y++) {
        sum += sums[(size_t)y * width + x];
        sums[(size_t)y * width + x] = sum;
    }
}
