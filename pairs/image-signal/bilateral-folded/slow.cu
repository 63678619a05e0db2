#define BLOCK 16
#define MAX_RADIUS 8
#define SIDE (BLOCK + 2 * MAX_RADIUS)

extern "C" __global__ void bilateral(const float *image, float *out, int height, int width, int radius, float sigma_space,
                                     float sigma_range)
{
    __shared__ float tile[SIDE][SIDE + 1];
    __shared__ float space[(2 * MAX_RADIUS + 1) * (2 * MAX_RADIUS + 1)];
    const int tx = threadIdx.x, ty = threadIdx.y;
    const int x = blockIdx.x * BLOCK + tx, y = blockIdx.y * BLOCK + ty;
    const int wide = BLOCK + 2 * radius, taps = 2 * radius + 1;
    for (int j = ty; j < wide; j += BLOCK)
        for (int i = tx; i < wide; i += BLOCK) {
            const int sx = min(max((int)(blockIdx.x * BLOCK) + i - radius, 0), width - 1);
            const int sy = min(max((int)(blockIdx.y * BLOCK) + j - radius, 0), height - 1);
            tile[j][i] = image[sy * width + sx];
        }
    for (int i = ty * BLOCK + tx; i < taps * taps; i += BLOCK * BLOCK) {
        const int dx = i % taps - radius, dy = i / taps - radius;
        space[i] = expf(-(dx * dx + dy * dy) / (2.0f * sigma_space * sigma_space));
    }
    __syncthreads();
    if (x >= width || y >= height)
        return;
    const float centre = tile[ty + radius][tx + radius];
    const float scale = -1.0f / (2.0f * sigma_range * sigma_range);
    float sum = 0.0f, norm = 0.0f;
    for (int dy = 0; dy < taps; dy++)
        for (int dx = 0; dx < taps; dx++) {
            const float value = tile[ty + dy][tx + dx];
            const float diff = value - centre;
            const float weight = space[dy * taps + dx] * expf(scale * diff * diff);
            sum += weight * value;
            norm += weight;
        }
    out[y * width + x] = sum / norm;
}
