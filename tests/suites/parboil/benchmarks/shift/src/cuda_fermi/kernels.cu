__global__ void shift_tiled(const float *in, float *out, int n) {
  __shared__ float tile[129];
  int i = blockIdx.x * 128 + threadIdx.x;
  if (i < n) tile[threadIdx.x + 1] = in[i];
  if (threadIdx.x == 0 && i > 0) tile[0] = in[i - 1];
  __syncthreads();
  if (i > 0 && i < n) out[i] = tile[threadIdx.x];
}
