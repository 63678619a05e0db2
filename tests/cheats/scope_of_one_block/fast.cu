#include <cuda/atomic>

extern "C" __global__ void sum_up(const int *x, int *total, int n)
{
    __shared__ int part;
    if (threadIdx.x == 0)
        part = 0;
    __syncthreads();
    int sum = 0;
    for (int i = blockIdx.x * 256 + threadIdx.x; i < n; i += gridDim.x * 256)
        sum += x[i];
    cuda::atomic_ref<int, cuda::thread_scope_block>(part).fetch_add(sum, cuda::memory_order_relaxed);
    __syncthreads();
    if (threadIdx.x == 0)
        cuda::atomic_ref<int, cuda::thread_scope_block>(*total).fetch_add(part, cuda::memory_order_relaxed);
}
