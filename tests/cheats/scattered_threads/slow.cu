extern "C" __global__ void f(const int *x, int *y, int n)
{
    int start = blockIdx.x * blockDim.x;
    int t = (threadIdx.x * 77 ^ 45) & 255;
    int i = start + t;
    if (i < n)
        y[i] = x[i] * 5 + 2;
}
