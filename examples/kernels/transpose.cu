// A whole program with host code and main: the launches, sizes and buffers are read off it.
// To build and run it by itself: nvcc transpose.cu -o transpose && ./transpose
#include <cstdio>
#include <cstdlib>
#include <vector>

#define TILE 32
#define ROWS 8

__global__ void transpose_naive(const float *in, float *out, int width, int height) {
  int x = blockIdx.x * TILE + threadIdx.x;
  int y = blockIdx.y * TILE + threadIdx.y;
  for (int j = 0; j < TILE; j += ROWS)
    if (x < width && y + j < height) out[x * height + y + j] = in[(y + j) * width + x];
}

__global__ void transpose_tiled(const float *in, float *out, int width, int height) {
  __shared__ float tile[TILE][TILE + 1];
  int x = blockIdx.x * TILE + threadIdx.x;
  int y = blockIdx.y * TILE + threadIdx.y;
  for (int j = 0; j < TILE; j += ROWS)
    if (x < width && y + j < height) tile[threadIdx.y + j][threadIdx.x] = in[(y + j) * width + x];
  __syncthreads();
  x = blockIdx.y * TILE + threadIdx.x;
  y = blockIdx.x * TILE + threadIdx.y;
  for (int j = 0; j < TILE; j += ROWS)
    if (x < height && y + j < width) out[(y + j) * height + x] = tile[threadIdx.x][threadIdx.y + j];
}

int main(int argc, char **argv) {
  int width = argc > 1 ? atoi(argv[1]) : 4000;
  int height = argc > 2 ? atoi(argv[2]) : 2800;
  size_t bytes = sizeof(float) * width * height;
  std::vector<float> host(width * height);
  for (int i = 0; i < width * height; i++) host[i] = float(i % 1021);

  float *in, *out;
  cudaMalloc(&in, bytes);
  cudaMalloc(&out, bytes);
  cudaMemcpy(in, host.data(), bytes, cudaMemcpyHostToDevice);

  dim3 block(TILE, ROWS);
  dim3 grid((width + TILE - 1) / TILE, (height + TILE - 1) / TILE);
  transpose_naive<<<grid, block>>>(in, out, width, height);
  transpose_tiled<<<grid, block>>>(in, out, width, height);

  std::vector<float> back(width * height);
  cudaMemcpy(back.data(), out, bytes, cudaMemcpyDeviceToHost);
  printf("%s\n", back[1] == host[width] ? "transposed" : "wrong");
  cudaFree(in);
  cudaFree(out);
}
