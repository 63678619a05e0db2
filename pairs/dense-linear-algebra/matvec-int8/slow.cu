extern "C" __global__ void multiply(const signed char *matrix, const signed char *x, int *y, int m, int k)
{
    int row = blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= m)
        return;
    int sum = 0;
    for (int j = 0; j < k; j++)
        sum += matrix[(size_t)row * k + j] * x[j];
    y[row] = sum;
}
