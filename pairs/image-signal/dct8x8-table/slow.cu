#define PI 3.14159265f

// One thread a coefficient.
extern "C" __global__ void dct8x8(const float *image, float *out, int height, int width)
{
    int x = blockIdx.x * blockDim.x + threadIdx.x;
    int y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x >= width || y >= height)
        return;
    int u = x % 8, v = y % 8;
    int x0 = x - u, y0 = y - v;
    float sum = 0.0f;
    for (int j = 0; j < 8; j++)
        for (int i = 0; i < 8; i++)
            sum += image[(y0 + j) * width + x0 + i] * cosf((2 * i + 1) * u * PI / 16.0f) *
                   cosf((2 * j + 1) * v * PI / 16.0f);
    float cu = u == 0 ? sqrtf(0.125f) : 0.5f;
    float cv = v == 0 ? sqrtf(0.125f) : 0.5f;
    out[y * width + x] = cu * cv * sum;
}
