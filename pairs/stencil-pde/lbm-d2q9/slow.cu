__constant__ int cx[9] = {0, 1, 0, -1, 0, 1, -1, -1, 1};
__constant__ int cy[9] = {0, 0, 1, 0, -1, 1, 1, -1, -1};
__constant__ float weight[9] = {4.0f / 9,  1.0f / 9,  1.0f / 9,  1.0f / 9, 1.0f / 9,
                                1.0f / 36, 1.0f / 36, 1.0f / 36, 1.0f / 36};

struct Cell {
    float f[9];
};

extern "C" __global__ void collide_stream(const Cell *from, Cell *to, int height, int width, float omega)
{
    int x = blockIdx.x * blockDim.x + threadIdx.x;
    int y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x >= width || y >= height)
        return;
    float f[9];
    float rho = 0.0f, ux = 0.0f, uy = 0.0f;
    for (int q = 0; q < 9; q++) {
        int sx = (x - cx[q] + width) % width;
        int sy = (y - cy[q] + height) % height;
        f[q] = from[sy * width + sx].f[q];
        rho += f[q];
        ux += cx[q] * f[q];
        uy += cy[q] * f[q];
    }
    ux /= rho;
    uy /= rho;
    float u2 = ux * ux + uy * uy;
    for (int q = 0; q < 9; q++) {
        float cu = cx[q] * ux + cy[q] * uy;
        float feq = weight[q] * rho * (1.0f + 3.0f * cu + 4.5f * cu * cu - 1.5f * u2);
        to[y * width + x].f[q] = f[q] + omega * (feq - f[q]);
    }
}
