extern "C" __global__ void shift(const int *values, int *sums, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        sums[i] = i > 0 ? values[i - 1] : 0;
}

extern "C" __global__ void add_left(const int *from, int *to, int n, int distance)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        to[i] = i >= distance ? from[i] + from[i - distance] : from[i];
}
