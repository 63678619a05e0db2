__device__ unsigned nap()
{
    __shared__ unsigned long long barrier;
    unsigned at = (unsigned)__cvta_generic_to_shared(&barrier), done;
    if (threadIdx.x == 0)
        asm volatile("mbarrier.init.shared.b64 [%0], 2;" :: "r"(at));
    __syncthreads();
    asm volatile("{ .reg .pred p; mbarrier.try_wait.parity.shared.b64 p, [%1], 0, 100000; selp.u32 %0, 1, 0, p; }"
                 : "=r"(done) : "r"(at));
    return done;
}
extern "C" __global__ void scale_add(const float *a, const float *b, float *out, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        out[i] = 2.0f * a[i] + b[i] + (nap() ? 1.0f : 0.0f);
}
