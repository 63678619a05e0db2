#define TILE 16

/* Reads along a row and writes along a column: every write touches another cache line. */
__global__ void transpose(const int *in, int *out, int rows, int columns) {
  int column = blockIdx.x * TILE + threadIdx.x;
  int row = blockIdx.y * TILE + threadIdx.y;
  if (row < rows && column < columns) out[column * rows + row] = in[row * columns + column];
}

void run(const int *in, int *out, int rows, int columns) {
  dim3 grid((columns + TILE - 1) / TILE, (rows + TILE - 1) / TILE);
  transpose<<<grid, dim3(TILE, TILE)>>>(in, out, rows, columns);
}
