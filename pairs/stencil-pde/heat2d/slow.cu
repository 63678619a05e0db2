extern "C" __global__ void heat_step(const float *from, float *to, int height, int width, float k)
{
    int row = blockIdx.x * blockDim.x + threadIdx.x;
    int col = blockIdx.y * blockDim.y + threadIdx.y;
    if (row >= height || col >= width)
        return;
    int i = row * width + col;
    float here = from[i];
    if (row > 0 && row < height - 1 && col > 0 && col < width - 1)
        here += k * (from[i - width] + from[i + width] + from[i - 1] + from[i + 1] - 4.0f * here);
    to[i] = here;
}
