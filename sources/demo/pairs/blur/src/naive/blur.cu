#include <stdio.h>
#include <stdlib.h>
#include "../../../common/image.h"

/* Mean over a (2 * RADIUS + 1)^2 window; every thread reads its whole window from global memory. */
__global__ void blur(const float *in, float *out, int width, int height) {
  int x = blockIdx.x * blockDim.x + threadIdx.x;
  int y = blockIdx.y * blockDim.y + threadIdx.y;
  if (x >= width || y >= height) return;
  float sum = 0.0f;
  for (int dy = -RADIUS; dy <= RADIUS; ++dy)
    for (int dx = -RADIUS; dx <= RADIUS; ++dx)
      sum += in[clamp_to(y + dy, height) * width + clamp_to(x + dx, width)];
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
  dim3 block(16, 16), grid((width + 15) / 16, (height + 15) / 16);
  blur<<<grid, block>>>(d_in, d_out, width, height);
  cudaMemcpy(image, d_out, bytes, cudaMemcpyDeviceToHost);
  printf("%f\n", image[0]);
  return 0;
}
