extern "C" __global__ void prefix(const int *x, int *sums, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n)
        return;
    int sum = 0;
    for (int j = 0; j <= i; j++)
        sum += x[j];
    sums[i] = sum;
}
