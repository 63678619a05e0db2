// A thread a row of a sparse matrix.
extern "C" __global__ void row_sums(const int *offsets, const float *values, float *sums, int rows)
{
    int row = blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= rows)
        return;
    float sum = 0.0f;
    for (int i = offsets[row]; i < offsets[row + 1]; i++)
        sum += values[i];
    sums[row] = sum;
}
