extern "C" __global__ void rotate(const int *from, int *to, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        to[i + n / 2 < n ? i + n / 2 : i + n / 2 - n] = from[i];
}
extern "C" __global__ void rotate_back(const int *from, int *to, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        to[i] = from[i + n / 2 < n ? i + n / 2 : i + n / 2 - n];
}
extern "C" __global__ void f(const int *x, int *y, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        y[i] = x[i] * 5 + 2;
}
