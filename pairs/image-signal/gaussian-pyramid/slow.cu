extern "C" __global__ void halve(const float *image, float *smaller, int height, int width)
{
    int x = blockIdx.x * blockDim.x + threadIdx.x;
    int y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x >= width / 2 || y >= height / 2)
        return;
    float taps[5] = {1.0f / 16, 4.0f / 16, 6.0f / 16, 4.0f / 16, 1.0f / 16};
    float sum = 0.0f;
    for (int dy = 0; dy < 5; dy++) {
        for (int dx = 0; dx < 5; dx++) {
            int i = min(max(2 * y + dy - 2, 0), height - 1);
            int j = min(max(2 * x + dx - 2, 0), width - 1);
            sum += taps[dy] * taps[dx] * image[(size_t)i * width + j];
        }
    }
    smaller[(size_t)y * (width / 2) + x] = sum;
}
