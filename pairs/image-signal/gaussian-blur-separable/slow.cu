extern "C" __global__ void blur(const float *image, const float *taps, float *out, int height, int width, int radius)
{
    int x = blockIdx.x * blockDim.x + threadIdx.x;
    int y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x >= width || y >= height)
        return;
    float sum = 0.0f;
    for (int dy = -radius; dy <= radius; dy++) {
        int sy = min(max(y + dy, 0), height - 1);
        for (int dx = -radius; dx <= radius; dx++) {
            int sx = min(max(x + dx, 0), width - 1);
            sum += taps[dy + radius] * taps[dx + radius] * image[sy * width + sx];
        }
    }
    out[y * width + x] = sum;
}
