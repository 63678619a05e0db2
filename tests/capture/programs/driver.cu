// The driver API: a cubin loaded at run time; arguments one by one and as one buffer; a kernel without any.
// libcuda is found at run time, so that this builds without a driver.
#include <cuda.h>
#include <dlfcn.h>

#include <cstdio>
#include <cstdlib>
#include <vector>

#define TEXT_OF(name) #name
#define TEXT(name) TEXT_OF(name)
#define CALL(name, ...)                                                                             \
  if (CUresult error = reinterpret_cast<decltype(&name)>(dlsym(library, TEXT(name)))(__VA_ARGS__))  \
  return fprintf(stderr, "%s: error %d\n", #name, error), 1

int main(int argc, char** argv) {
  const int launches = argc > 2 ? atoi(argv[2]) : 100;
  void* library = dlopen("libcuda.so.1", RTLD_NOW);
  if (!library) return fprintf(stderr, "no CUDA driver\n"), 1;
  CUdevice device;
  CUcontext context;
  CUmodule module;
  CUfunction axpy, tick;
  CALL(cuInit, 0);
  CALL(cuDeviceGet, &device, 0);
  CALL(cuDevicePrimaryCtxRetain, &context, device);
  CALL(cuCtxSetCurrent, context);
  CALL(cuModuleLoad, &module, argv[1]);
  CALL(cuModuleGetFunction, &axpy, module, "axpy");
  CALL(cuModuleGetFunction, &tick, module, "tick");
  std::vector<double> host(300, 1.0);
  struct {
    CUdeviceptr y, x;
    double a;
    long n;
  } args{0, 0, 0.25, 300};
  CALL(cuMemAlloc, &args.y, 300 * sizeof(double));
  CALL(cuMemAlloc, &args.x, 300 * sizeof(double));
  CALL(cuMemcpyHtoD, args.y, host.data(), 300 * sizeof(double));
  CALL(cuMemcpyHtoD, args.x, host.data(), 300 * sizeof(double));
  CALL(cuLaunchKernel, tick, 1, 1, 1, 1, 1, 1, 0, nullptr, nullptr, nullptr);
  void* each[] = {&args.y, &args.x, &args.a, &args.n};
  for (int i = 0; i < launches; ++i) CALL(cuLaunchKernel, axpy, 1, 1, 1, 128, 1, 1, 0, nullptr, each, nullptr);
  size_t size = sizeof args;
  void* extra[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, &args, CU_LAUNCH_PARAM_BUFFER_SIZE, &size, CU_LAUNCH_PARAM_END};
  CALL(cuLaunchKernel, axpy, 1, 1, 1, 128, 1, 1, 0, nullptr, nullptr, extra);
  CALL(cuLaunchKernel, tick, 1, 1, 1, 1, 1, 1, 0, nullptr, nullptr, nullptr);
  CALL(cuCtxSynchronize, );
  CALL(cuMemcpyDtoH, host.data(), args.y, 300 * sizeof(double));
  CUdeviceptr counter;
  int ticks = 0;
  CALL(cuModuleGetGlobal, &counter, nullptr, module, "ticks");
  CALL(cuMemcpyDtoH, &ticks, counter, sizeof ticks);
  printf("y %.2f, ticks %d\n", host[299], ticks);
  return 0;
}
