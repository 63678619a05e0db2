extern "C" __global__ void scale_add(const float *a, const float *b, float *out, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n)
        return;
    float x, y;
    unsigned long long keep;
    asm("createpolicy.fractional.L2::evict_last.b64 %0, 1.0;" : "=l"(keep));
    asm volatile("ld.global.L2::cache_hint.f32 %0, [%1], %2;" : "=f"(x) : "l"(a + i), "l"(keep));
    asm volatile("ld.global.L2::cache_hint.f32 %0, [%1], %2;" : "=f"(y) : "l"(b + i), "l"(keep));
    out[i] = 2.0f * x + y;
}
