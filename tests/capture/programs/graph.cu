// Streams, threads, graphs of two nodes and of one, constant memory, templates, a struct by value.
#include <cstdio>
#include <cstdlib>
#include <thread>

#define CHECK(call)                                                                      \
  if (cudaError_t error = (call); error != cudaSuccess)                                  \
  return fprintf(stderr, "%s: %s\n", #call, cudaGetErrorString(error)), 1

struct View {
  const float* data;
  int rows, cols;
  float* out;
};

__constant__ float weights[3] = {1, 1, 1};

template <typename T>
__global__ void fill(T* data, T value, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) data[i] = value;
}

template <int N>
__global__ void smooth(View view) {
  int i = blockIdx.x * blockDim.x + threadIdx.x, n = view.rows * view.cols;
  if (i >= n) return;
  float sum = 0;
  for (int k = 0; k < N; ++k) sum += weights[k] * view.data[(i + k) % n];
  view.out[i] = sum;
}

int main(int argc, char** argv) {
  const int launches = argc > 1 ? atoi(argv[1]) : 100, rows = 30, cols = 40, n = rows * cols;
  const float given[3] = {0.5f, 0.25f, 0.125f};
  float *data, *out, result[n];
  int *numbers, number = 0;
  cudaStream_t first, second;
  cudaEvent_t filled;
  CHECK(cudaMalloc(&data, n * sizeof(float)));
  CHECK(cudaMalloc(&out, n * sizeof(float)));
  CHECK(cudaMalloc(&numbers, n * sizeof(int)));
  CHECK(cudaMemcpyToSymbol(weights, given, sizeof given));
  CHECK(cudaStreamCreateWithFlags(&first, cudaStreamNonBlocking));
  CHECK(cudaStreamCreate(&second));
  CHECK(cudaEventCreateWithFlags(&filled, cudaEventDisableTiming));
  const View view{data, rows, cols, out};
  fill<float><<<5, 256, 0, first>>>(data, 4.0f, n);
  CHECK(cudaEventRecord(filled, first));
  CHECK(cudaStreamWaitEvent(second, filled, 0));
  smooth<3><<<10, 128, 0, second>>>(view);
  CHECK(cudaStreamSynchronize(second));

  cudaGraph_t graph, single;
  cudaGraphExec_t two, one;
  CHECK(cudaStreamBeginCapture(first, cudaStreamCaptureModeGlobal));
  fill<float><<<5, 256, 0, first>>>(data, 8.0f, n);
  smooth<3><<<10, 128, 0, first>>>(view);
  CHECK(cudaStreamEndCapture(first, &graph));
  CHECK(cudaGraphInstantiate(&two, graph, 0));
  for (int i = 0; i < launches; ++i) CHECK(cudaGraphLaunch(two, first));
  CHECK(cudaStreamBeginCapture(first, cudaStreamCaptureModeGlobal));
  smooth<1><<<10, 128, 0, first>>>(view);
  CHECK(cudaStreamEndCapture(first, &single));
  CHECK(cudaGraphInstantiate(&one, single, 0));
  CHECK(cudaGraphLaunch(one, first));
  std::thread([&] { fill<int><<<5, 256>>>(numbers, 7, n); }).join();
  CHECK(cudaDeviceSynchronize());
  CHECK(cudaMemcpy(result, out, sizeof result, cudaMemcpyDeviceToHost));
  CHECK(cudaMemcpy(&number, numbers, sizeof number, cudaMemcpyDeviceToHost));
  printf("smooth %.3f, number %d\n", result[n - 1], number);
  return 0;
}
