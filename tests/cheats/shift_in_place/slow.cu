extern "C" __global__ void shift(const float *x, float *moved, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        moved[i] = x[i > 0 ? i - 1 : n - 1];
}
