extern "C" __global__ void powers(const unsigned *x, unsigned *out, int n)
{
    int i = threadIdx.x % 32 * (gridDim.x * 8) + blockIdx.x * 8 + threadIdx.x / 32;
    if (i >= n)
        return;
    unsigned power = 1;
    for (int k = 0; k < 13; k++)
        power *= x[i];
    out[i] = power;
}
