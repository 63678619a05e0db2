extern "C" __global__ void relax_colour(float *u, const float *f, int height, int width, int colour)
{
    int x = blockIdx.x * blockDim.x + threadIdx.x;
    int y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x < 1 || y < 1 || x >= width - 1 || y >= height - 1)
        return;
    if ((x + y) % 2 != colour)
        return;
    int at = y * width + x;
    u[at] = 0.25f * (u[at - 1] + u[at + 1] + u[at - width] + u[at + width] + f[at]);
}
