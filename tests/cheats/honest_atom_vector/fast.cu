extern "C" __global__ void axpy(const float *a, const float *b, float *out, int n)
{
    const int i = 4 * (blockIdx.x * blockDim.x + threadIdx.x);
    if (i >= n)
        return;
    const float4 x = *(const float4 *)(a + i), y = *(const float4 *)(b + i);
    float2 old;
    asm volatile("atom.global.add.v2.f32 {%0, %1}, [%2], {%3, %4};" : "=f"(old.x), "=f"(old.y) : "l"(out + i + 0), "f"(x.x), "f"(x.y) : "memory");
    asm volatile("atom.global.add.v2.f32 {%0, %1}, [%2], {%3, %4};" : "=f"(old.x), "=f"(old.y) : "l"(out + i + 2), "f"(x.z), "f"(x.w) : "memory");
    out[i] += old.x + 2.0f * y.x, out[i + 1] += 2.0f * y.y;
    out[i + 2] += old.x + 2.0f * y.z, out[i + 3] += old.y + 2.0f * y.w;
}
