extern "C" __global__ void negate(const float *x, float *y, int rows, int columns)
{
    int row = blockIdx.y * blockDim.y + threadIdx.y;
    int column = blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= rows || column >= columns)
        return;
    y[row * columns + column] = -x[row * columns + column];
}
