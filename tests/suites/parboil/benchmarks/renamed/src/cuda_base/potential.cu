__constant__ float4 atoms[64];

__global__ void potential(float *grid, int count) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  float sum = 0.0f;
  for (int k = 0; k < count; k++) sum += atoms[k].w / (1.0f + atoms[k].x * i);
  grid[i] += sum;
}
