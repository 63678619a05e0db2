extern "C" __global__ void clip(const float *x, float *out, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        out[i] = 1.0f - fminf(fmaxf(x[i], -4.5f), 4.5f);
}
