extern "C" __global__ void invert(const unsigned char *in, unsigned char *out, int n)
{
    int i = threadIdx.x % 32 * (gridDim.x * 8) + blockIdx.x * 8 + threadIdx.x / 32;
    if (i < n)
        out[i] = 255 - in[i];
}
