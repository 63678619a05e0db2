#include "fold.cuh"

template <typename T, int WIDTH>
__global__ void fold(const T *in, T *out) {
  __shared__ T part[WIDTH];
  part[threadIdx.x] = in[blockIdx.x * WIDTH + threadIdx.x];
  for (int half = WIDTH / 2; half > 0; half >>= 1) {
    __syncthreads();
    if (threadIdx.x < half) {
      part[threadIdx.x] += part[threadIdx.x + half];
    }
  }
  if (threadIdx.x == 0) {
    out[blockIdx.x] = part[0];
  }
}

void fold_all(const float *in, float *out, int blocks) {
  fold<float, WIDTH><<<blocks, WIDTH>>>(in, out);
}
