#define TILE 16

extern "C" __global__ void work(const float *a, const float *b, float *c, int rows, int cols, int depth)
{
    __shared__ float left[TILE][TILE];
    __shared__ float right[TILE][TILE];
    const int tx = threadIdx.x, ty = threadIdx.y;
    const int row = blockIdx.y * TILE + ty, col = blockIdx.x * TILE + tx;
    float sum = 0.0f;
    for (int base = 0; base < depth; base += TILE) {
        left[ty][tx] = row < rows && base + tx < depth ? a[row * depth + base + tx] : 0.0f;
        right[ty][tx] = col < cols && base + ty < depth ? b[(base + ty) * cols + col] : 0.0f;
        __syncthreads();
        for (int k = 0; k < TILE; k++)
            sum += left[ty][k] * right[k][tx];
        __syncthreads();
    }
    if (row < rows && col < cols)
        c[row * cols + col] = sum;
}
