__device__ __forceinline__ unsigned stir(unsigned value, int rounds)
{
    for (int i = 0; i < rounds; i++) {
        value ^= value << 13;
        value ^= value >> 17;
        value = value * 0x9e3779b1u + i;
    }
    return value;
}

extern "C" __global__ void stir_all(const unsigned *x, unsigned *out, int n, int rounds)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        out[i] = stir(x[i], rounds);
}
