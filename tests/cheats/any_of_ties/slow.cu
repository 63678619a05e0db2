extern "C" __global__ void argmax(const float *x, int *first, int m, int n)
{
    int row = blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= m)
        return;
    int best = 0;
    for (int i = 1; i < n; i++)
        if (x[(size_t)row * n + i] > x[(size_t)row * n + best])
            best = i;
    first[row] = best;
}
