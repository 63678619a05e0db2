extern "C" __global__ void negate(const float *x, float *y, int rows, int columns)
{
    int row = blockIdx.y * blockDim.y + threadIdx.x;
    int column = blockIdx.x * blockDim.x + threadIdx.y;
    if (row >= rows || column >= columns)
        return;
    y[row * columns + column] = -x[row * columns + column];
}
