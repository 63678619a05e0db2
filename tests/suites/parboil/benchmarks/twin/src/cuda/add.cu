__global__ void add(const int *left, const int *right, int *sum) {
  const int at = blockIdx.x * blockDim.x + threadIdx.x;
  sum[at] = left[at] + right[at];  /* only the names differ */
}
