extern "C" __global__ void dots(const double *a, const double *b, double *out, int m, int n)
{
    int row = blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= m)
        return;
    double sum = 0.0;
    for (int i = 0; i < n; i++)
        sum += a[(size_t)row * n + i] * b[i];
    out[row] = sum;
}
