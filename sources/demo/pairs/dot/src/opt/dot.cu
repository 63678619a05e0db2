#include <stdio.h>

#define BLOCK 256
#define WARP 32

template <typename T>
__device__ T warp_sum(T value) {
#pragma unroll
  for (int offset = WARP / 2; offset > 0; offset /= 2) value += __shfl_down_sync(0xffffffffu, value, offset);
  return value;
}

/* One partial sum a block: warps reduce in registers, the first warp adds up theirs. */
__global__ void __launch_bounds__(BLOCK)
    dot(const float *__restrict__ x, const float *__restrict__ y, float *__restrict__ partial, int n) {
  __shared__ float of_warp[BLOCK / WARP];
  int i = blockIdx.x * BLOCK + threadIdx.x;
  float sum = warp_sum(i < n ? __ldg(&x[i]) * __ldg(&y[i]) : 0.0f);
  if (threadIdx.x % WARP == 0) of_warp[threadIdx.x / WARP] = sum;
  __syncthreads();
  if (threadIdx.x < WARP) {
    sum = warp_sum(threadIdx.x < BLOCK / WARP ? of_warp[threadIdx.x] : 0.0f);
    if (threadIdx.x == 0) partial[blockIdx.x] = sum;
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
