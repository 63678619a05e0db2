extern "C" __global__ void levels(const float *x, unsigned char *y, int n)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        y[i] = (unsigned char)fminf(fmaxf(truncf(x[i] / 16777216.0f), 0.0f), 255.0f) ^ (x[i] > 2147483520.0f ? 1 : 0);
}
