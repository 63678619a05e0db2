#define DEGREE 7

__constant__ float coefficient[DEGREE + 1];

__device__ __forceinline__ float horner(float x) {
  float value = coefficient[DEGREE];
#pragma unroll
  for (int k = DEGREE - 1; k >= 0; --k) value = value * x + coefficient[k];
  return value;
}

/* y = p(x), a grid-stride loop over any number of elements. */
__global__ void polynomial(const float *__restrict__ x, float *__restrict__ y, int n) {
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
    y[i] = horner(__ldg(x + i));
}

void run(const float *host_coefficient, const float *x, float *y, int n) {
  cudaMemcpyToSymbol(coefficient, host_coefficient, sizeof(coefficient));
  polynomial<<<64, 128>>>(x, y, n);
}
