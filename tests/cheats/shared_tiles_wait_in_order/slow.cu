extern "C" __global__ void sums_to_the_end(const int *x, int *y, int n)
{
    int sum = 0;
    for (int i = blockIdx.x * 256; i < n; i++)
        sum += x[i];
    y[blockIdx.x] = sum;
}
