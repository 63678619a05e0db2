extern "C" __global__ void count(const int *columns, int *counts, int nnz)
{
    int entry = blockIdx.x * blockDim.x + threadIdx.x;
    if (entry < nnz)
        atomicAdd(&counts[columns[entry]], 1);
}

extern "C" __global__ void scan(const int *counts, int *offsets, int *cursors, int cols)
{
    __shared__ int sums[1024];
    int tid = threadIdx.x;
    int length = (cols + 1023) / 1024;
    int begin = min(tid * length, cols), end = min(begin + length, cols);
    int sum = 0;
    for (int i = begin; i < end; i++)
        sum += counts[i];
    sums[tid] = sum;
    __syncthreads();
    for (int distance = 1; distance < 1024; distance *= 2) {
        int other = tid >= distance ? sums[tid - distance] : 0;
        __syncthreads();
        sums[tid] += other;
        __syncthreads();
    }
    int running = sums[tid] - sum;
    for (int i = begin; i < end; i++) {
        offsets[i] = running;
        cursors[i] = running;
        running += counts[i];
    }
    if (tid == 1023)
        offsets[cols] = sums[1023];
}

extern "C" __global__ void scatter(const int *offsets, const int *columns, const float *values, int *cursors,
                                   int *t_rows, float *t_values, int rows)
{
    int row = blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= rows)
        return;
    for (int entry = offsets[row]; entry < offsets[row + 1]; entry++) {
        int place = atomicAdd(&cursors[columns[entry]], 1);
        t_rows[place] = row;
        t_values[place] = values[entry];
    }
}

extern "C" __global__ void sort_columns(const int *t_offsets, int *t_rows, float *t_values, int cols)
{
    int column = blockIdx.x * blockDim.x + threadIdx.x;
    if (column >= cols)
        return;
    int begin = t_offsets[column], end = t_offsets[column + 1];
    for (int i = begin + 1; i < end; i++) {
        int row = t_rows[i];
        float value = t_values[i];
        int j = i;
        for (; j > begin && t_rows[j - 1] > row; j--) {
            t_rows[j] = t_rows[j - 1];
            t_values[j] = t_values[j - 1];
        }
        t_rows[j] = row;
        t_values[j] = value;
    }
}
