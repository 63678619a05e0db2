extern "C" __global__ void step(const int *costs, const int *before, int *best, int row, int cols)
{
    int col = blockIdx.x * blockDim.x + threadIdx.x;
    if (col >= cols)
        return;
    int least = 0;
    if (row > 0) {
        least = before[col];
        if (col > 0)
            least = min(least, before[col - 1]);
        if (col < cols - 1)
            least = min(least, before[col + 1]);
    }
    best[col] = least + costs[row * cols + col];
}
