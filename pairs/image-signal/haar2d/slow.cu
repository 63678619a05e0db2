extern "C" __global__ void haar_rows(const float *from, float *to, int height, int width, int stride)
{
    int x = blockIdx.x * blockDim.x + threadIdx.x;
    int y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x >= width / 2 || y >= height)
        return;
    float a = from[(size_t)y * stride + 2 * x], b = from[(size_t)y * stride + 2 * x + 1];
    to[(size_t)y * stride + x] = 0.5f * (a + b);
    to[(size_t)y * stride + width / 2 + x] = 0.5f * (a - b);
}

extern "C" __global__ void haar_columns(const float *from, float *to, int height, int width, int stride)
{
    int x = blockIdx.x * blockDim.x + threadIdx.x;
    int y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x >= width || y >= height / 2)
        return;
    float a = from[(size_t)(2 * y) * stride + x], b = from[(size_t)(2 * y + 1) * stride + x];
    to[(size_t)y * stride + x] = 0.5f * (a + b);
    to[(size_t)(height / 2 + y) * stride + x] = 0.5f * (a - b);
}
