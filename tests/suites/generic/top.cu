__global__ void top(float *x, int n) {
  int i = threadIdx.x;
  if (i < n) x[i] *= 2.0f;
}
