#include "shape.h"
#include "./kernel/step.cu"

void run(point *points, int n) {
  point *d_points;
  cudaMalloc((void **)&d_points, n * sizeof(point));
  cudaMemcpy(d_points, points, n * sizeof(point), cudaMemcpyHostToDevice);
  dim3 grid((n + 127) / 128), block(128);
  kernel<<<grid, block>>>(d_points, 0.5f, n);
  cudaMemcpy(points, d_points, n * sizeof(point), cudaMemcpyDeviceToHost);
}
