extern "C" __global__ void bilateral(const float *image, float *out, int height, int width, int radius, float sigma_space,
                                     float sigma_range)
{
    int x = blockIdx.x * blockDim.x + threadIdx.x;
    int y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x >= width || y >= height)
        return;
    float centre = image[y * width + x];
    float sum = 0.0f, norm = 0.0f;
    for (int dy = -radius; dy <= radius; dy++)
        for (int dx = -radius; dx <= radius; dx++) {
            int sx = min(max(x + dx, 0), width - 1);
            int sy = min(max(y + dy, 0), height - 1);
            float value = image[sy * width + sx];
            float diff = value - centre;
            float weight = expf(-(dx * dx + dy * dy) / (2.0f * sigma_space * sigma_space)) *
                           expf(-diff * diff / (2.0f * sigma_range * sigma_range));
            sum += weight * value;
            norm += weight;
        }
    out[y * width + x] = sum / norm;
}
