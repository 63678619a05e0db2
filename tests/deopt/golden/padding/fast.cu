#define TILE 32
#define PITCH (TILE + 1)

extern "C" __global__ void work(const float *in, float *out, int rows, int cols)
{
    __shared__ float tile[TILE][PITCH];
    const int col = blockIdx.x * TILE, row = blockIdx.y * TILE;
    for (int y = threadIdx.y; y < TILE; y += 8)
        if (row + y < rows && col + threadIdx.x < cols)
            tile[y][threadIdx.x] = in[(row + y) * cols + col + threadIdx.x];
    __syncthreads();
    for (int x = threadIdx.y; x < TILE; x += 8)
        if (col + x < cols && row + threadIdx.x < rows)
            out[(col + x) * rows + row + threadIdx.x] = tile[threadIdx.x][x];
}
