
extern "C" __global__ void look_up(const int *start, const int *column, const int *row, const int *wanted, int *found, int m, int cols)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= m)
        return;
    int low = start[row[i]], end = start[row[i] + 1], high = end;
    while (low < high) {
        int middle = (low + high) / 2;
        if (column[middle] < wanted[i])
            low = middle + 1;
        else
            high = middle;
    }
    found[i] = low < end && column[low] == wanted[i] ? low : -1;
}
