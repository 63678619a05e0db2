extern "C" __global__ void f(const int *x, int *y, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if ((i | 255) < n)
        y[i & ~255 | (i * 77 ^ 45) & 255] = x[i & ~255 | (i * 77 ^ 45) & 255] * 5 + 2;
    else if (i < n)
        y[i] = x[i] * 5 + 2;
}
