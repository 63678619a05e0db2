__device__ unsigned place()
{
    unsigned warp;
    asm("mov.u32 %0, %%warpid;" : "=r"(warp));
    return warp;
}
extern "C" __global__ void scale_add(const float *a, const float *b, float *out, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        out[i] = place() < 1000 ? 2.0f * a[i] + b[i] : 0.0f;
}
