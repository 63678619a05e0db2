// What the host code of a published answer is compiled against, in place of PyTorch's CUDA build and nvcc: PyTorch
// for the CPU, and launches that are recorded instead of run. Precompiled once for each PyTorch.
#pragma once
#include <torch/csrc/utils/pybind.h>
#include <torch/types.h>

#include <cfloat>
#include <climits>
#include <cmath>
#include <optional>
#include <tuple>
#include <vector>

#include <cuda_fp16.h>
#include <cuda_runtime.h>
#include <vector_functions.h>

#undef __global__
#undef __device__
#undef __host__
#undef __constant__
#undef __shared__
#undef __forceinline__
#undef __launch_bounds__
#define __global__
#define __device__
#define __host__
#define __constant__
#define __shared__
#define __forceinline__ inline
#define __launch_bounds__(...)

// nvcc declares these for host code too.
#define BOTH(Left, Right, Result)                                             \
    inline Result min(Left a, Right b) { return (Result)a < (Result)b ? a : b; } \
    inline Result max(Left a, Right b) { return (Result)a < (Result)b ? b : a; }
#define BOTH_SIGNS(Type) \
    BOTH(Type, Type, Type) BOTH(unsigned Type, unsigned Type, unsigned Type) \
    BOTH(Type, unsigned Type, unsigned Type) BOTH(unsigned Type, Type, unsigned Type)
BOTH_SIGNS(int)
BOTH_SIGNS(long)
BOTH_SIGNS(long long)
BOTH(float, float, float)
BOTH(double, double, double)
#undef BOTH_SIGNS
#undef BOTH

namespace kcurate {
struct Configuration {
    dim3 grid, block;
    size_t shared_bytes;
};
inline Configuration configuration;

inline void configure(dim3 grid, dim3 block, size_t shared_bytes = 0, const void* = nullptr) {
    configuration = {grid, block, shared_bytes};
}

template <typename T> pybind11::tuple value(const T& argument) {
    if constexpr (std::is_convertible_v<T, const volatile void*>)  // `__restrict__` is no part of is_pointer_v
        return pybind11::make_tuple("pointer", (unsigned long long)argument);
    else if constexpr (std::is_same_v<T, bool>)
        return pybind11::make_tuple("bool", argument);
    else if constexpr (std::is_integral_v<T>)
        return pybind11::make_tuple((std::is_signed_v<T> ? "int" : "uint") + std::to_string(8 * sizeof(T)), argument);
    else if constexpr (std::is_floating_point_v<T>)
        return pybind11::make_tuple("float" + std::to_string(8 * sizeof(T)), (double)argument);
    else
        return pybind11::make_tuple("struct", sizeof(T));
}

template <typename... Parts> void tell(const Parts&... parts) {
    pybind11::gil_scoped_acquire held;
    pybind11::module_::import("sys").attr("kcurate_event")(parts...);
}

// `instance`: __PRETTY_FUNCTION__ of the kernel, which ends with its template arguments.
template <typename... Arguments>
void launched(const char* name, const char* instance, const Arguments&... arguments) {
    pybind11::gil_scoped_acquire held;
    const auto& [grid, block, shared_bytes] = configuration;
    tell("launch", name, instance, pybind11::make_tuple(grid.x, grid.y, grid.z),
         pybind11::make_tuple(block.x, block.y, block.z), shared_bytes, pybind11::make_tuple(value(arguments)...));
}

struct Symbol {
    Symbol(const char* name, const void* at) {
        tell("symbol", name, (unsigned long long)at);
    }
};
}  // namespace kcurate

#define TOLD extern "C" __attribute__((weak)) cudaError_t
TOLD cudaGetLastError() { return cudaSuccess; }
TOLD cudaPeekAtLastError() { return cudaSuccess; }
TOLD cudaDeviceSynchronize() { return cudaSuccess; }
TOLD cudaStreamSynchronize(cudaStream_t) { return cudaSuccess; }
TOLD cudaGetDevice(int* device) { return *device = 0, cudaSuccess; }
TOLD cudaSetDevice(int) { return cudaSuccess; }
TOLD cudaFuncSetCacheConfig(const void*, cudaFuncCache) { return cudaSuccess; }
TOLD cudaFuncSetAttribute(const void*, cudaFuncAttribute, int) { return cudaSuccess; }
TOLD cudaDeviceSetCacheConfig(cudaFuncCache) { return cudaSuccess; }
TOLD cudaMemsetAsync(void* at, int byte, size_t bytes, cudaStream_t) {
    return kcurate::tell("memset", (unsigned long long)at, byte, bytes), cudaSuccess;
}
TOLD cudaMemset(void* at, int byte, size_t bytes) { return cudaMemsetAsync(at, byte, bytes, nullptr); }
TOLD cudaMemcpyAsync(void* to, const void* from, size_t bytes, cudaMemcpyKind, cudaStream_t) {
    return kcurate::tell("memcpy", (unsigned long long)to, (unsigned long long)from, bytes), cudaSuccess;
}
TOLD cudaMemcpy(void* to, const void* from, size_t bytes, cudaMemcpyKind kind) {
    return cudaMemcpyAsync(to, from, bytes, kind, nullptr);
}
TOLD cudaGetSymbolAddress(void** to, const void* symbol) { return *to = (void*)symbol, cudaSuccess; }
TOLD cudaMemcpyToSymbolAsync(const void* symbol, const void* from, size_t bytes, size_t offset, cudaMemcpyKind,
                             cudaStream_t) {
    return kcurate::tell("memcpy", (unsigned long long)symbol + offset, (unsigned long long)from, bytes), cudaSuccess;
}
TOLD cudaMemcpyToSymbol(const void* symbol, const void* from, size_t bytes, size_t offset, cudaMemcpyKind kind) {
    return cudaMemcpyToSymbolAsync(symbol, from, bytes, offset, kind, nullptr);
}
extern "C" __attribute__((weak)) const char* cudaGetErrorString(cudaError_t) { return "no error"; }
TOLD cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int) {
    *value = attribute == cudaDevAttrMultiProcessorCount     ? KCURATE_MULTIPROCESSORS
             : attribute == cudaDevAttrMaxThreadsPerBlock    ? 1024
             : attribute == cudaDevAttrComputeCapabilityMajor ? 9
             : attribute == cudaDevAttrWarpSize              ? 32
                                                             : 0;
    return cudaSuccess;
}
TOLD cudaGetDeviceProperties(cudaDeviceProp* about, int) {
    *about = {};
    about->multiProcessorCount = KCURATE_MULTIPROCESSORS, about->warpSize = 32, about->major = 9;
    about->maxThreadsPerBlock = 1024, about->maxThreadsPerMultiProcessor = 2048;
    about->sharedMemPerBlock = 48 << 10, about->sharedMemPerBlockOptin = 227 << 10;
    about->maxThreadsDim[0] = about->maxThreadsDim[1] = 1024, about->maxThreadsDim[2] = 64;
    about->maxGridSize[0] = INT_MAX, about->maxGridSize[1] = about->maxGridSize[2] = 65535;
    return cudaSuccess;
}

namespace at::cuda {
struct CUDAStream {
    cudaStream_t stream() const { return nullptr; }
    operator cudaStream_t() const { return nullptr; }
    void synchronize() const {}
};
inline CUDAStream getCurrentCUDAStream(int = 0) { return {}; }
inline CUDAStream getDefaultCUDAStream(int = 0) { return {}; }
inline CUDAStream getStreamFromPool(bool = false, int = 0) { return {}; }
struct CUDAGuard {
    template <typename Device> CUDAGuard(const Device&) {}
};
using OptionalCUDAGuard = CUDAGuard;
inline cudaDeviceProp* getCurrentDeviceProperties() {
    static cudaDeviceProp about;
    return cudaGetDeviceProperties(&about, 0), &about;
}
inline cudaDeviceProp* getDeviceProperties(int = 0) { return getCurrentDeviceProperties(); }
}  // namespace at::cuda
namespace c10::cuda {
using namespace at::cuda;
}
#define C10_CUDA_CHECK(...) (void)(__VA_ARGS__)
#define AT_CUDA_CHECK(...) (void)(__VA_ARGS__)
#define C10_CUDA_KERNEL_LAUNCH_CHECK() (void)0

// Last: the answer asks for a GPU, and gets a CPU.
#define is_cuda is_cpu
#define kCUDA kCPU
