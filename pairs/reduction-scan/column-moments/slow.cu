extern "C" __global__ void column_mean(const float *values, float *mean, int rows, int cols)
{
    int col = blockIdx.x * blockDim.x + threadIdx.x;
    if (col >= cols)
        return;
    float sum = 0.0f;
    for (int row = 0; row < rows; row++)
        sum += values[row * cols + col];
    mean[col] = sum / rows;
}

extern "C" __global__ void column_variance(const float *values, const float *mean, float *variance, int rows,
                                           int cols)
{
    int col = blockIdx.x * blockDim.x + threadIdx.x;
    if (col >= cols)
        return;
    float sum = 0.0f;
    for (int row = 0; row < rows; row++) {
        float difference = values[row * cols + col] - mean[col];
        sum += difference * difference;
    }
    variance[col] = sum / rows;
}
