extern "C" __global__ void blur_rows(const float *image, const float *taps, float *out, int height, int width,
                                     int radius)
{
    int x = blockIdx.x * blockDim.x + threadIdx.x;
    int y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x >= width || y >= height)
        return;
    float sum = 0.0f;
    for (int dx = -radius; dx <= radius; dx++) {
        int sx = min(max(x + dx, 0), width - 1);
        sum += taps[dx + radius] * image[y * width + sx];
    }
    out[y * width + x] = sum;
}

extern "C" __global__ void blur_columns(const float *image, const float *taps, float *out, int height, int width,
                                        int radius)
{
    int x = blockIdx.x * blockDim.x + threadIdx.x;
    int y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x >= width || y >= height)
        return;
    float sum = 0.0f;
    for (int dy = -radius; dy <= radius; dy++) {
        int sy = min(max(y + dy, 0), height - 1);
        sum += taps[dy + radius] * image[sy * width + x];
    }
    out[y * width + x] = sum;
}
