extern "C" __global__ void powers(const unsigned *x, unsigned *out, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n)
        return;
    unsigned power;
    asm volatile("{\n"
                 "    .reg .pred more;\n"
                 "    .reg .u32 left;\n"
                 "    mov.u32 left, 13;\n"
                 "    mov.u32 %0, 1;\n"
                 "AGAIN:\n"
                 "    mul.lo.u32 %0, %0, %1;\n"
                 "    sub.u32 left, left, 1;\n"
                 "    setp.ne.u32 more, left, 0;\n"
                 "    @more bra AGAIN;\n"
                 "}"
                 : "=&r"(power) : "r"(x[i]));
    out[i] = power;
}
