extern "C" __global__ void stencil7(const float *in, float *out, int depth, int height, int width, float centre,
                                    float side)
{
    int x = blockIdx.x * blockDim.x + threadIdx.x;
    int y = blockIdx.y * blockDim.y + threadIdx.y;
    int z = blockIdx.z * blockDim.z + threadIdx.z;
    if (x >= width || y >= height || z >= depth)
        return;
    int plane = height * width;
    int at = z * plane + y * width + x;
    if (x == 0 || y == 0 || z == 0 || x == width - 1 || y == height - 1 || z == depth - 1) {
        out[at] = in[at];
        return;
    }
    out[at] = centre * in[at] + side * (in[at - 1] + in[at + 1] + in[at - width] + in[at + width] +
                                        in[at - plane] + in[at + plane]);
}
