#include "../shape.h"

static __device__ point moved(point p, float by) {
  p.x += by;
  p.y -= by;
  return p;
}

__global__ void kernel(point *points, float by, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) {
    return;
  }
  points[i] = moved(points[i], by);
}
