#include <cuda/atomic>
extern "C" __global__ void k(float* x, float* y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    cuda::atomic_ref<float, cuda::thread_scope_device> in(x[i]), out(y[i]);
    float v = in.load();
    out.store(v * (v + 1.0f), cuda::memory_order_seq_cst);
}
