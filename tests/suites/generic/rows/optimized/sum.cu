extern "C" __global__ void row_sum(const float *a, float *sums, int rows, int columns) {
  __shared__ float part[128];
  float sum = 0.0f;
  for (int k = threadIdx.x; k < columns; k += 128) sum += a[blockIdx.x * columns + k];
  part[threadIdx.x] = sum;
  for (int half = 64; half > 0; half >>= 1) {
    __syncthreads();
    if (threadIdx.x < half) part[threadIdx.x] += part[threadIdx.x + half];
  }
  if (threadIdx.x == 0) sums[blockIdx.x] = part[0];
}
