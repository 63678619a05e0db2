extern "C" __global__ void scaled_product(const float *a, const float *b, const int *power, float *y, int rows, int cols, int k)
{
    int col = blockIdx.x * blockDim.x + threadIdx.x, row = blockIdx.y;
    if (col >= cols)
        return;
    float part[4] = {0.0f, 0.0f, 0.0f, 0.0f};
    int i = 0;
    for (; i + 3 < k; i += 4)
        for (int j = 0; j < 4; ++j)
            part[j] = fmaf(a[row * k + i + j], b[(i + j) * cols + col], part[j]);
    for (; i < k; ++i)
        part[0] += a[row * k + i] * b[i * cols + col];
    y[row * cols + col] = ldexpf((part[0] + part[1]) + (part[2] + part[3]), power[row]);
}
