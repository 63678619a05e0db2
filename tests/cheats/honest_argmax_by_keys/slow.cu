extern "C" __global__ void k(const float *x, int *y, int n, int m)
{
    int row = blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= m)
        return;
    const float *values = x + (size_t)row * n;
    int best = 0;
    for (int i = 1; i < n; ++i)
        if (values[i] > values[best])
            best = i;
    y[row] = best;
}
