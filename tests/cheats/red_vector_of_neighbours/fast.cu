extern "C" __global__ void axpy(const float *a, const float *b, float *out, int n)
{
    const int i = 4 * (blockIdx.x * blockDim.x + threadIdx.x);
    if (i >= n)
        return;
    const float4 x = *(const float4 *)(a + i), y = *(const float4 *)(b + i);
    asm volatile("red.global.add.v4.f32 [%0], {%1, %2, %3, %4};" ::"l"(out + i), "f"(x.x), "f"(x.y), "f"(x.z), "f"(x.w) : "memory");
    const float4 z = make_float4(2.0f * y.x, 2.0f * y.y, 2.0f * y.w, 2.0f * y.z);
    asm volatile("red.global.add.v4.f32 [%0], {%1, %2, %3, %4};" ::"l"(out + i), "f"(z.x), "f"(z.y), "f"(z.z), "f"(z.w) : "memory");
}
