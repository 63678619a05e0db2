// Each thread scales one element; BLOCK comes from the including file.
__global__ void scale_kernel(const float *in, float *out, float factor, int n) {
  int i = blockIdx.x * BLOCK + threadIdx.x;
  if (i < n) out[i] = factor * in[i];
}
