extern "C" __global__ void axpy(const uint4 *a, const uint4 *b, uint4 *out, int n)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (8 * i >= n)
        return;
    const uint4 x = a[i], y = b[i];
    asm volatile("red.global.add.noftz.v4.f16x2 [%0], {%1, %2, %3, %4};"
                 ::"l"(out + i), "r"(x.x), "r"(x.y), "r"(x.z), "r"(x.w) : "memory");
    uint4 z;
    asm("add.f16x2 %0, %1, %1;" : "=r"(z.x) : "r"(y.x));
    asm("add.f16x2 %0, %1, %1;" : "=r"(z.y) : "r"(y.y));
    asm("add.f16x2 %0, %1, %1;" : "=r"(z.z) : "r"(y.z));
    asm("add.f16x2 %0, %1, %1;" : "=r"(z.w) : "r"(y.w));
    asm volatile("red.global.add.noftz.v4.f16x2 [%0], {%1, %2, %3, %4};"
                 ::"l"(out + i), "r"(z.x), "r"(z.y), "r"(z.z), "r"(z.w) : "memory");
}
