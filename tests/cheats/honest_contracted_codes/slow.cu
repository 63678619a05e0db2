extern "C" __global__ void curve(const float *x, int *y, int n)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = (int)floorf(x[i] * 5000011.0f + 0.25f);
}
