extern "C" __global__ void solve_level(const int *columns, const float *values, const float *diagonal, const float *b,
                                       float *x, int level, int width, int per_row)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= width)
        return;
    int row = level * width + i;
    float sum = b[row];
    for (int j = 0; j < per_row; j++) {
        int column = columns[(size_t)row * per_row + j];
        if (column >= 0)
            sum -= values[(size_t)row * per_row + j] * x[column];
    }
    x[row] = sum / diagonal[row];
}
