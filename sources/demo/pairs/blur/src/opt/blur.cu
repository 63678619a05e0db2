#include <stdio.h>
#include <stdlib.h>
#include "../../../common/image.h"

#define TILE 16
#define SPAN (TILE + 2 * RADIUS)

/* The block stages its tile and the halo in shared memory, then sums rows and columns apart. */
__global__ void blur(const float *__restrict__ in, float *__restrict__ out, int width, int height) {
  __shared__ float tile[SPAN][SPAN + 1];
  __shared__ float rows[SPAN][TILE];
  int x0 = blockIdx.x * TILE - RADIUS, y0 = blockIdx.y * TILE - RADIUS;
  int thread = threadIdx.y * TILE + threadIdx.x;
  for (int i = thread; i < SPAN * SPAN; i += TILE * TILE)
    tile[i / SPAN][i % SPAN] = in[clamp_to(y0 + i / SPAN, height) * width + clamp_to(x0 + i % SPAN, width)];
  __syncthreads();
  for (int i = thread; i < SPAN * TILE; i += TILE * TILE) {
    float sum = 0.0f;
#pragma unroll
    for (int dx = 0; dx <= 2 * RADIUS; ++dx) sum += tile[i / TILE][i % TILE + dx];
    rows[i / TILE][i % TILE] = sum;
  }
  __syncthreads();
  int x = blockIdx.x * TILE + threadIdx.x, y = blockIdx.y * TILE + threadIdx.y;
  if (x >= width || y >= height) return;
  float sum = 0.0f;
#pragma unroll
  for (int dy = 0; dy <= 2 * RADIUS; ++dy) sum += rows[threadIdx.y + dy][threadIdx.x];
  out[y * width + x] = sum / ((2 * RADIUS + 1) * (2 * RADIUS + 1));
}

int main(int argc, char **argv) {
  int width = argc > 1 ? atoi(argv[1]) : 1024, height = argc > 2 ? atoi(argv[2]) : 1024;
  size_t bytes = sizeof(float) * width * height;
  float *image = (float *)malloc(bytes), *d_in, *d_out;
  for (int i = 0; i < width * height; ++i) image[i] = (float)(i % 251);
  cudaMalloc(&d_in, bytes);
  cudaMalloc(&d_out, bytes);
  cudaMemcpy(d_in, image, bytes, cudaMemcpyHostToDevice);
  dim3 block(TILE, TILE), grid((width + TILE - 1) / TILE, (height + TILE - 1) / TILE);
  blur<<<grid, block>>>(d_in, d_out, width, height);
  cudaMemcpy(image, d_out, bytes, cudaMemcpyDeviceToHost);
  printf("%f\n", image[0]);
  return 0;
}
