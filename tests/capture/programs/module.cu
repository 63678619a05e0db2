// Loaded at run time by driver.cu.
__device__ int ticks;

extern "C" __global__ void axpy(double* y, const double* x, double a, long n) {
  for (long i = threadIdx.x; i < n; i += blockDim.x) y[i] += a * x[i];
}

extern "C" __global__ void tick() { ++ticks; }
