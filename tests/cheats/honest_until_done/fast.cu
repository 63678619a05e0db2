extern "C" __global__ void strip(int *y, int *left, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        y[i] >>= __ffs(y[i]) - 1;
}
