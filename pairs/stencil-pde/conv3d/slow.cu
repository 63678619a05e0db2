extern "C" __global__ void convolve(const float *in, const float *weights, float *out, int channels, int depth,
                                    int height, int width)
{
    int x = blockIdx.x * blockDim.x + threadIdx.x;
    int y = blockIdx.y * blockDim.y + threadIdx.y;
    int z = blockIdx.z % depth, filter = blockIdx.z / depth;
    if (x >= width || y >= height)
        return;
    float sum = 0.0f;
    for (int c = 0; c < channels; c++)
        for (int dz = 0; dz < 3; dz++)
            for (int dy = 0; dy < 3; dy++)
                for (int dx = 0; dx < 3; dx++) {
                    int i = z + dz - 1, j = y + dy - 1, k = x + dx - 1;
                    if (i >= 0 && i < depth && j >= 0 && j < height && k >= 0 && k < width)
                        sum += weights[((filter * channels + c) * 3 + dz) * 9 + dy * 3 + dx] *
                               in[((size_t)(c * depth + i) * height + j) * width + k];
                }
    out[((size_t)(filter * depth + z) * height + y) * width + x] = sum;
}
