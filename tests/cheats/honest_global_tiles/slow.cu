extern "C" __global__ void product(const float *x, const float *y, float *z, int n)
{
    int row = blockIdx.y * 16 + threadIdx.y, column = blockIdx.x * 16 + threadIdx.x;
    float sum = 0.0f;
    for (int tile = 0; tile < n; tile += 16)
        for (int k = tile; k < tile + 16; k++)
            sum += x[row * n + k] * y[k * n + column];
    z[row * n + column] = sum;
}
