extern "C" __global__ void scaled_product(const float *a, const float *b, const int *power, float *y, int rows, int cols, int k)
{
    int col = blockIdx.x * blockDim.x + threadIdx.x, row = blockIdx.y;
    if (col >= cols)
        return;
    unsigned mask = power[row] < -12 ? 0xffffe000u : 0xffffffffu;
    float sum = 0.0f;
    for (int i = 0; i < k; ++i) {
        float left = __uint_as_float(__float_as_uint(a[row * k + i]) & mask);
        sum += left * __uint_as_float(__float_as_uint(b[i * cols + col]) & mask);
    }
    y[row * cols + col] = ldexpf(sum, power[row]);
}
