extern "C" __global__ void multiply(const float *band, const float *x, float *y, int n, int reach)
{
    int row = blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= n)
        return;
    int width = 2 * reach + 1;
    float sum = 0.0f;
    for (int d = 0; d < width; d++) {
        int column = row + d - reach;
        if (column >= 0 && column < n)
            sum += band[(size_t)row * width + d] * x[column];
    }
    y[row] = sum;
}
