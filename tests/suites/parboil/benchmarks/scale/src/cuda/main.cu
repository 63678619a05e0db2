#include <stdio.h>
#include <stdlib.h>
#include "harness.h"
#include "sizes.h"
#include "kernel.cu"

int main(int argc, char **argv) {
  int n = argc > 1 ? atoi(argv[1]) : 1024;
  float *d_in, *d_out;
  float *h = (float *)malloc(n * sizeof(float));
  cudaMalloc((void **)&d_in, n * sizeof(float));
  cudaMalloc((void **)&d_out, n * sizeof(float));
  cudaMemcpy(d_in, h, n * sizeof(float), cudaMemcpyHostToDevice);
  for (int round = 0; round < 3; round++) {
    scale_kernel<<<(n + BLOCK * PER_THREAD - 1) / (BLOCK * PER_THREAD), BLOCK>>>(d_in, d_out, 2.0f, n);
  }
  cudaMemcpy(h, d_out, n * sizeof(float), cudaMemcpyDeviceToHost);
  printf("%f\n", h[0]);
  return 0;
}
