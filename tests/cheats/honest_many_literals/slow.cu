extern "C" __global__ void k(const float *x, float *y, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        y[i] = x[i] < -2.5f ? 0.0f : x[i] * x[i] + 5.0f * x[i] + 6.25f;
}
