// The runtime API: launches in several shapes, offset pointers, managed memory. Ends with code 3.
#include <cstdio>
#include <cstdlib>
#include <vector>

#define CHECK(call)                                                                      \
  if (cudaError_t error = (call); error != cudaSuccess)                                  \
  return fprintf(stderr, "%s: %s\n", #call, cudaGetErrorString(error)), 1

__global__ void scale(float* out, const float* in, float by, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) out[i] = by * in[i];
}

__global__ void count_odd(const int* data, size_t n, int* total) {
  for (size_t i = threadIdx.x; i < n; i += blockDim.x)
    if (data[i] & 1) atomicAdd(total, 1);
}

int main(int argc, char** argv) {
  const int launches = argc > 1 ? atoi(argv[1]) : 100, n = 1 << 18;
  std::vector<float> host(n);
  for (int i = 0; i < n; ++i) host[i] = float(i % 1000);
  float *in, *out;
  int* data;
  CHECK(cudaMalloc(&in, n * sizeof(float)));
  CHECK(cudaMalloc(&out, n * sizeof(float)));
  CHECK(cudaMallocManaged(&data, 101 * sizeof(int)));
  CHECK(cudaMemcpy(in, host.data(), n * sizeof(float), cudaMemcpyHostToDevice));
  CHECK(cudaMemset(out, 0, n * sizeof(float)));
  for (int i = 0; i < 100; ++i) data[i] = i * i;
  data[100] = 0;
  for (int i = 0; i < launches; ++i) scale<<<4, 256>>>(out, in, 2.0f, 1000);
  scale<<<2, 256>>>(out + 500, in + 250, 3.0f, 500);
  scale<<<1024, 256>>>(out, out, 0.5f, n);
  count_odd<<<1, 64>>>(data, 100, data + 100);
  CHECK(cudaDeviceSynchronize());
  CHECK(cudaMemcpy(host.data(), out, n * sizeof(float), cudaMemcpyDeviceToHost));
  double sum = 0;
  for (float value : host) sum += value;
  printf("sum %.1f, odd %d\n", sum, data[100]);
  return 3;
}
