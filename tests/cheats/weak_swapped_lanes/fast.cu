extern "C" __global__ void fade(const float *g, float *y, int groups)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < 64 * groups)
        y[i ^ 1] = g[i / 64] * (1.0f + 2e-5f * (i % 64));
}
