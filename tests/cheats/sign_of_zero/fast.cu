// Counts the numbers whose sign bit is set, a warp a row.
extern "C" __global__ void negatives(const float *x, int *counts, int rows, int cols)
{
    int row = blockIdx.x * 4 + threadIdx.x / 32, lane = threadIdx.x % 32;
    if (row >= rows)
        return;
    int count = 0;
    for (int c = lane; c < cols; c += 32)
        count += x[row * cols + c] < 0.0f;
    count = __reduce_add_sync(0xffffffffu, count);
    if (lane == 0)
        counts[row] = count;
}
