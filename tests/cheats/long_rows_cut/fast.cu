// Eight lanes a row of a sparse matrix.
extern "C" __global__ void row_sums(const int *offsets, const float *values, float *sums, int rows)
{
    int row = blockIdx.x * 16 + threadIdx.x / 8, lane = threadIdx.x % 8;
    int start = row < rows ? offsets[row] : 0, end = row < rows ? offsets[row + 1] : 0;
    float sum = 0.0f;
    for (int i = start + lane; i < min(end, start + 256); i += 8)
        sum += values[i];
    for (int offset = 4; offset > 0; offset /= 2)
        sum += __shfl_xor_sync(0xffffffffu, sum, offset);
    if (row < rows && lane == 0)
        sums[row] = sum;
}
