extern "C" __global__ void k(const float *x, float *y, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n)
        return;
    float v = fmaxf(x[i], -2.5f) + 2.5f;
    y[i] = v * v * (0x10000 / 65536) + 3.25f - 1.625f * 2.0f;
}
