extern "C" __global__ void __launch_bounds__(256)
    erode_rows(const unsigned char *__restrict__ image, unsigned char *__restrict__ rows, int height, int width,
               int radius)
{
    const int x = blockIdx.x * 32 + threadIdx.x, y = blockIdx.y * 8 + threadIdx.y;
    if (x >= width || y >= height)
        return;
    int least = 255;
    for (int j = max(x - radius, 0); j <= min(x + radius, width - 1); j++)
        least = min(least, static_cast<int>(image[static_cast<size_t>(y) * width + j]));
    rows[static_cast<size_t>(y) * width + x] = least;
}

extern "C" __global__ void __launch_bounds__(256)
    erode_columns(const unsigned char *__restrict__ rows, unsigned char *__restrict__ eroded, int height, int width,
                  int radius)
{
    const int x = blockIdx.x * 32 + threadIdx.x, y = blockIdx.y * 8 + threadIdx.y;
    if (x >= width || y >= height)
        return;
    int least = 255;
    for (int i = max(y - radius, 0); i <= min(y + radius, height - 1); i++)
        least = min(least, static_cast<int>(rows[static_cast<size_t>(i) * width + x]));
    eroded[static_cast<size_t>(y) * width + x] = least;
}
