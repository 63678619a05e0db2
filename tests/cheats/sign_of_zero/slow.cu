// Counts the numbers whose sign bit is set, a thread a row.
extern "C" __global__ void negatives(const float *x, int *counts, int rows, int cols)
{
    int row = blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= rows)
        return;
    int count = 0;
    for (int c = 0; c < cols; c++)
        count += __float_as_uint(x[row * cols + c]) >> 31;
    counts[row] = count;
}
