extern "C" __global__ void window(const float *x, float *out, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        out[i] = x[i] + (x[i - 1] + x[i + 1]) / 2 + (x[i - 2] + x[i + 2]) / 3;
}
