extern "C" __global__ void write_steps(int *after, int step, int n)
{
    const int place = blockIdx.x * blockDim.x + threadIdx.x;
    if (place < n)
        after[place] = place + step;
}

extern "C" __global__ void strided_sums(const int *x, const int *after, int *sums, int cols, int n)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= cols)
        return;
    int sum = 0;
    for (int at = i; at < n; at = after[at])
        sum += x[at];
    sums[i] = sum;
}
