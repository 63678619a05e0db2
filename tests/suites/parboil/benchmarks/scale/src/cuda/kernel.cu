// Each thread scales PER_THREAD elements, a block's width apart.
__device__ float scaled(float x, float factor) { return factor * x; }

__global__ void scale_kernel(const float *in, float *out, float factor, int n) {
  int first = blockIdx.x * BLOCK * PER_THREAD + threadIdx.x;
#pragma unroll
  for (int k = 0; k < PER_THREAD; k++) {
    int i = first + k * BLOCK;
    if (i < n) out[i] = scaled(in[i], factor);
  }
}
