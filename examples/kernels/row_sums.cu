// Templated, both sides in one file: FILE.cu:KERNEL names one of them.
template <typename T>
__global__ void row_sums_serial(const T *matrix, T *sums, int rows, int cols) {
  int row = blockIdx.x * blockDim.x + threadIdx.x;
  if (row >= rows) return;
  T sum = 0;
  for (int col = 0; col < cols; col++) sum += matrix[row * cols + col];
  sums[row] = sum;
}

// A block for each row: loads are coalesced, and warps add up by shuffles.
template <typename T>
__global__ void row_sums(const T *matrix, T *sums, int rows, int cols) {
  __shared__ T parts[32];
  int row = blockIdx.x, lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  if (row >= rows) return;
  T sum = 0;
  for (int col = threadIdx.x; col < cols; col += blockDim.x) sum += matrix[row * cols + col];
  for (int offset = 16; offset > 0; offset /= 2) sum += __shfl_down_sync(0xffffffff, sum, offset);
  if (lane == 0) parts[warp] = sum;
  __syncthreads();
  if (warp == 0) {
    sum = lane < blockDim.x / 32 ? parts[lane] : T(0);
    for (int offset = 16; offset > 0; offset /= 2) sum += __shfl_down_sync(0xffffffff, sum, offset);
    if (lane == 0) sums[row] = sum;
  }
}
