extern "C" __global__ void sobol(const unsigned *directions, unsigned *out, int dims, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    int dim = blockIdx.y;
    if (i >= n)
        return;
    unsigned gray = i ^ (i >> 1), x = 0;
    for (int bit = 0; bit < 32; bit++)
        if (gray & (1u << bit))
            x ^= directions[dim * 32 + bit];
    out[(size_t)dim * n + i] = x;
}
