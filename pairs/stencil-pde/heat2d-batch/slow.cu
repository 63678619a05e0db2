extern "C" __global__ void step(const float *now, float *next, float rate, int height, int width)
{
    int x = blockIdx.x * blockDim.x + threadIdx.x;
    int y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x >= width || y >= height)
        return;
    size_t i = ((size_t)blockIdx.z * height + y) * width + x;
    float own = now[i];
    if (x > 0 && x < width - 1 && y > 0 && y < height - 1)
        own += rate * (now[i - 1] + now[i + 1] + now[i - width] + now[i + width] - 4.0f * own);
    next[i] = own;
}
