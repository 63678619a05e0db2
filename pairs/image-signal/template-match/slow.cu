#define SIDE 16

extern "C" __global__ void match(const unsigned char *image, const unsigned char *pattern, int *differences, int height,
                                 int width)
{
    int x = blockIdx.x * blockDim.x + threadIdx.x;
    int y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x + SIDE > width || y + SIDE > height)
        return;
    int sum = 0;
    for (int i = 0; i < SIDE; i++) {
        for (int j = 0; j < SIDE; j++) {
            int d = image[(size_t)(y + i) * width + x + j] - pattern[i * SIDE + j];
            sum += d * d;
        }
    }
    differences[(size_t)y * (width - SIDE + 1) + x] = sum;
}
