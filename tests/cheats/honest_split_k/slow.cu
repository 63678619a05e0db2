extern "C" __global__ void matvec(const float *a, const float *x, float *y, int m, int k)
{
    const int row = blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= m)
        return;
    float sum = 0.0f;
    for (int i = 0; i < k; i++)
        sum += a[(size_t)row * k + i] * x[i];
    y[row] = sum;
}
