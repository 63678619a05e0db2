extern "C" __global__ void stencil(const float *in, float *out, int height, int width, float centre, float side)
{
    int y = blockIdx.x * blockDim.x + threadIdx.x;
    int x = blockIdx.y * blockDim.y + threadIdx.y;
    if (y >= height || x >= width)
        return;
    int at = y * width + x;
    if (y == 0 || x == 0 || y == height - 1 || x == width - 1) {
        out[at] = in[at];
        return;
    }
    out[at] = centre * in[at] + side * (in[at - width] + in[at + width] + in[at - 1] + in[at + 1]);
}
