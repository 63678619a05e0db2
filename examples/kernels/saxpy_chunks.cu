// Bare: kernels and nothing else. `kcurate pair` guesses how they are launched, and prints the guess.
// Each thread takes a chunk of neighbouring elements, so the threads of a warp are far apart in memory.
__global__ void saxpy_chunks(const float *x, float *y, float a, int n) {
  int first = 8 * (blockIdx.x * blockDim.x + threadIdx.x);
  for (int k = 0; k < 8; k++) {
    int i = first + k;
    if (i < n) y[i] = a * x[i] + y[i];
  }
}
