extern "C" __global__ void column_sum(const float *gradient, float *bias, int rows, int cols)
{
    int col = blockIdx.x * blockDim.x + threadIdx.x;
    if (col >= cols)
        return;
    float sum = 0.0f;
    for (int row = 0; row < rows; row++)
        sum += gradient[row * cols + col];
    bias[col] = sum;
}
