#include <stdio.h>

#define BLOCK 256

/* One partial sum a block; thread 0 of each block adds up what the others multiplied. */
__global__ void dot(const float *x, const float *y, float *partial, int n) {
  __shared__ float product[BLOCK];
  int i = blockIdx.x * BLOCK + threadIdx.x;
  product[threadIdx.x] = i < n ? x[i] * y[i] : 0.0f;
  __syncthreads();
  if (threadIdx.x == 0) {
    float sum = 0.0f;
    for (int k = 0; k < BLOCK; ++k) sum += product[k];
    partial[blockIdx.x] = sum;
  }
}

int main() {
  const int n = 1 << 20;
  float *d_x, *d_y, *d_partial;
  cudaMalloc((void **)&d_x, n * sizeof(float));
  cudaMalloc((void **)&d_y, n * sizeof(float));
  cudaMalloc((void **)&d_partial, (n + BLOCK - 1) / BLOCK * sizeof(float));
  dot<<<(n + BLOCK - 1) / BLOCK, BLOCK>>>(d_x, d_y, d_partial, n);
  printf("%d\n", (int)cudaGetLastError());
  return 0;
}
