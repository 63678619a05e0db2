// Mostly host code: its share of device code is below the default threshold.
#include <stdio.h>
#include <stdlib.h>

#define B 32
#define T(x) ((x) + 1)

__global__ void kernel(int *cost, int n) {
  int tx = threadIdx.x + B * blockIdx.x;
  if (tx < n) cost[tx] = T(cost[tx]);
}

static void fill(int *cost, int n) {
  for (int i = 0; i < n; i++) {
    cost[i] = rand() % 10;
  }
}

static void show(const int *cost, int n) {
  for (int i = 0; i < n; i++) {
    printf("%d ", cost[i]);
  }
  printf("\n");
}

int main(void) {
  int n = 100;
  int *host = (int *)malloc(n * sizeof(int));
  int *device;
  fill(host, n);
  cudaMalloc((void **)&device, n * sizeof(int));
  cudaMemcpy(device, host, n * sizeof(int), cudaMemcpyHostToDevice);
  kernel<<<(n + B - 1) / B, B>>>(device, n);
  cudaMemcpy(host, device, n * sizeof(int), cudaMemcpyDeviceToHost);
  show(host, n);
  free(host);
  cudaFree(device);
  return 0;
}
