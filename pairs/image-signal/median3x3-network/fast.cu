__device__ void order(int &a, int &b)
{
    int low = min(a, b);
    b = max(a, b);
    a = low;
}

// Columns, then what is left of rows: an exchange has no branch and its places are known, so that the nine pixels
// stay in registers.
extern "C" __global__ void median3x3(const unsigned char *image, unsigned char *out, int height, int width)
{
    int x = blockIdx.x * blockDim.x + threadIdx.x;
    int y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x >= width || y >= height)
        return;
    int v[3][3];
#pragma unroll
    for (int dy = 0; dy < 3; dy++)
#pragma unroll
        for (int dx = 0; dx < 3; dx++) {
            int sx = min(max(x + dx - 1, 0), width - 1);
            int sy = min(max(y + dy - 1, 0), height - 1);
            v[dx][dy] = image[sy * width + sx];
        }
#pragma unroll
    for (int c = 0; c < 3; c++) {
        order(v[c][0], v[c][1]);
        order(v[c][1], v[c][2]);
        order(v[c][0], v[c][1]);
    }
    int low = max(max(v[0][0], v[1][0]), v[2][0]);
    int high = min(min(v[0][2], v[1][2]), v[2][2]);
    int middle = max(min(v[0][1], v[1][1]), min(max(v[0][1], v[1][1]), v[2][1]));
    out[y * width + x] = max(min(low, middle), min(max(low, middle), high));
}
