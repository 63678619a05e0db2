#include <stdio.h>

/* y = A x with one thread a row; the column-major matrix makes neighbouring threads read together.
   Thanks to __restrict__ the compiler may keep the growing sum in a register. */
__global__ void __launch_bounds__(128)
    matvec(const float *__restrict__ a, const float *__restrict__ x, float *__restrict__ y, int rows, int columns) {
  int row = blockIdx.x * blockDim.x + threadIdx.x;
  if (row >= rows) return;
  y[row] = 0.0f;
#pragma unroll 4
  for (int k = 0; k < columns; ++k) y[row] += a[k * rows + row] * x[k];
}

int main() {
  const int rows = 4096, columns = 4096;
  float *a, *x, *y;
  cudaMalloc((void **)&a, sizeof(float) * rows * columns);
  cudaMalloc((void **)&x, sizeof(float) * columns);
  cudaMalloc((void **)&y, sizeof(float) * rows);
  cudaMemset(a, 0, sizeof(float) * rows * columns);
  matvec<<<(rows + 127) / 128, 128>>>(a, x, y, rows, columns);
  printf("%s\n", cudaGetErrorString(cudaDeviceSynchronize()));
  return 0;
}
