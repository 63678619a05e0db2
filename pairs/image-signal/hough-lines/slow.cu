extern "C" __global__ void vote(const unsigned char *image, const int *directions, int *votes, int height, int width,
                                int angles, int bins, int limit)
{
    int x = blockIdx.x * blockDim.x + threadIdx.x;
    int y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x >= width || y >= height || image[(size_t)y * width + x] < limit)
        return;
    for (int a = 0; a < angles; a++) {
        int distance = (x * directions[2 * a] + y * directions[2 * a + 1]) >> 14;
        atomicAdd(&votes[a * bins + distance + bins / 2], 1);
    }
}
