extern "C" __global__ void strided_sums(const int *__restrict__ x, int *__restrict__ sums, int cols, int n)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= cols)
        return;
    int sum = 0;
    for (int at = i; at < n; at += cols)
        sum += x[at];
    sums[i] = sum;
}
