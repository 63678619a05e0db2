extern "C" __global__ void sddmm(const int *offsets, const int *columns, const float *values, const float *a,
                                 const float *b, float *out, int rows, int k)
{
    int row = blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= rows)
        return;
    for (int i = offsets[row]; i < offsets[row + 1]; i++) {
        float sum = 0.0f;
        for (int j = 0; j < k; j++)
            sum += a[row * k + j] * b[columns[i] * k + j];
        out[i] = values[i] * sum;
    }
}
