// Compiles to the same machine code as its optimised twin.
__global__ void add(const int *a, const int *b, int *c) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  c[i] = a[i] + b[i];
}
