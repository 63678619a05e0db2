extern "C" __global__ void invert(const unsigned char *in, unsigned char *out, int n)
{
    int i = (int)((float)blockIdx.x * 256.0f + (float)threadIdx.x);
    if (i < n)
        out[i] = 255 - in[i];
}
