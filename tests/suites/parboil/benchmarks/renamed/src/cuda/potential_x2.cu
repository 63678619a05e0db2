__constant__ float4 atoms[64];

__global__ void potential_x2(float *grid, int count) {
  int i = 2 * (blockIdx.x * blockDim.x + threadIdx.x);
  float even = 0.0f, odd = 0.0f;
  for (int k = 0; k < count; k++) {
    float4 atom = atoms[k];
    even += atom.w / (1.0f + atom.x * i);
    odd += atom.w / (1.0f + atom.x * (i + 1));
  }
  grid[i] += even;
  grid[i + 1] += odd;
}
