extern "C" __global__ void heat_step(const float *__restrict__ from, float *__restrict__ to, int height, int width,
                                     float k)
{
    const int col = blockIdx.x * blockDim.x + threadIdx.x;
    const int row = blockIdx.y * blockDim.y + threadIdx.y;
    if (row >= height || col >= width)
        return;
    const int i = row * width + col;
    float here = from[i];
    if (row > 0 && row < height - 1 && col > 0 && col < width - 1)
        here += k * (from[i - width] + from[i + width] + from[i - 1] + from[i + 1] - 4.0f * here);
    to[i] = here;
}
