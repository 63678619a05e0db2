extern "C" __global__ void twice(const float *x, float *y, int n)
{
    int i = 4 * (blockIdx.x * blockDim.x + threadIdx.x);
    if (i >= n)
        return;
    float4 v;
    asm volatile("ld.global.v4.f32 {%0, %1, %2, %3}, [%4];" : "=f"(v.x), "=f"(v.y), "=f"(v.z), "=f"(v.w) : "l"(x + i));
    y[i] = 2.0f * v.x;
    if (i + 1 < n)
        y[i + 1] = 2.0f * v.y;
    if (i + 2 < n)
        y[i + 2] = 2.0f * v.z;
    if (i + 3 < n)
        y[i + 3] = 2.0f * v.w;
}
