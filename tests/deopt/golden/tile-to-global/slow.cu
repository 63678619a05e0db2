#define TILE 16

extern "C" __global__ void work(const float *a, const float *b, float *c, int rows, int cols, int depth)
{
    const int tx = threadIdx.x, ty = threadIdx.y;
    const int row = blockIdx.y * TILE + ty, col = blockIdx.x * TILE + tx;
    float sum = 0.0f;
    for (int base = 0; base < depth; base += TILE) {
        for (int k = 0; k < TILE; k++)
            sum += (row < rows && base + k < depth ? a[row * depth + base + k] : 0.0f) * (col < cols && base + k < depth ? b[(base + k) * cols + col] : 0.0f);
    }
    if (row < rows && col < cols)
        c[row * cols + col] = sum;
}
