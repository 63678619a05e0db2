extern "C" __global__ void weighted(const float *x, const float *weights, float *y, int rows)
{
    const int row = blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= rows)
        return;
    float sum = 0.0f;
    for (int k = 0; k < 64; k++)
        sum += weights[k] * x[row * 64 + k];
    y[row] = sum;
}
