extern "C" __global__ void correlate(const float *image, const float *taps, float *out, int height, int width, int radius)
{
    int x = blockIdx.x * blockDim.x + threadIdx.x;
    int y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x >= width || y >= height)
        return;
    int side = 2 * radius + 1;
    float sum = 0.0f;
    for (int dy = -radius; dy <= radius; dy++)
        for (int dx = -radius; dx <= radius; dx++) {
            int sx = x + dx, sy = y + dy;
            if (sx >= 0 && sx < width && sy >= 0 && sy < height)
                sum += taps[(dy + radius) * side + dx + radius] * image[sy * width + sx];
        }
    out[y * width + x] = sum;
}
