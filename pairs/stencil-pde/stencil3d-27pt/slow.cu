extern "C" __global__ void stencil(const float *in, float *out, int depth, int height, int width, float centre,
                                   float face, float edge, float corner)
{
    int x = blockIdx.x * blockDim.x + threadIdx.x;
    int y = blockIdx.y * blockDim.y + threadIdx.y;
    int z = blockIdx.z;
    if (x >= width || y >= height)
        return;
    size_t i = ((size_t)z * height + y) * width + x;
    if (x == 0 || x == width - 1 || y == 0 || y == height - 1 || z == 0 || z == depth - 1) {
        out[i] = in[i];
        return;
    }
    float weights[4] = {centre, face, edge, corner};
    float sum = 0.0f;
    for (int dz = -1; dz <= 1; dz++)
        for (int dy = -1; dy <= 1; dy++)
            for (int dx = -1; dx <= 1; dx++)
                sum += weights[abs(dx) + abs(dy) + abs(dz)] * in[((size_t)(z + dz) * height + y + dy) * width + x + dx];
    out[i] = sum;
}
