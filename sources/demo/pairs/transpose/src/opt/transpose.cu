#define TILE 16

/* Turns a tile in shared memory, so that reads and writes both run along rows. */
__global__ void transpose(const int *__restrict__ in, int *__restrict__ out, int rows, int columns) {
  __shared__ int tile[TILE][TILE + 1];
  int column = blockIdx.x * TILE + threadIdx.x;
  int row = blockIdx.y * TILE + threadIdx.y;
  if (row < rows && column < columns) tile[threadIdx.y][threadIdx.x] = in[row * columns + column];
  __syncthreads();
  column = blockIdx.x * TILE + threadIdx.y;
  row = blockIdx.y * TILE + threadIdx.x;
  if (row < rows && column < columns) out[column * rows + row] = tile[threadIdx.x][threadIdx.y];
}

void run(const int *in, int *out, int rows, int columns) {
  dim3 grid((columns + TILE - 1) / TILE, (rows + TILE - 1) / TILE);
  transpose<<<grid, dim3(TILE, TILE)>>>(in, out, rows, columns);
}
