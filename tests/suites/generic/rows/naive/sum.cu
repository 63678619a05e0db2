extern "C" __global__ void row_sum(const float *a, float *sums, int rows, int columns) {
  int row = blockIdx.x * blockDim.x + threadIdx.x;
  if (row >= rows) return;
  float sum = 0.0f;
  for (int k = 0; k < columns; k++) sum += a[row * columns + k];
  sums[row] = sum;
}
