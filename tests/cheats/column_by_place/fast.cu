
extern "C" __global__ void look_up(const int *start, const int *column, const int *row, const int *wanted, int *found, int m, int cols)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= m)
        return;
    const int first = start[row[i]], length = start[row[i] + 1] - first;
    const int near = int((long long)wanted[i] * length / cols);
    found[i] = -1;
    for (int k = max(0, near - 1); k <= min(length - 1, near + 1); k++)
        if (column[first + k] == wanted[i])
            found[i] = first + k;
}
