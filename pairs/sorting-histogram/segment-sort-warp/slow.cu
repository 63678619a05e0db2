__device__ void order(int *row, int i, int j)
{
    if (row[i] > row[j]) {
        int key = row[i];
        row[i] = row[j];
        row[j] = key;
    }
}

extern "C" __global__ void sort_rows(const int *keys, int *ordered, int width)
{
    __shared__ int row[1024];
    int tid = threadIdx.x;
    for (int i = tid; i < 1024; i += blockDim.x)
        row[i] = i < width ? keys[blockIdx.x * width + i] : 0x7fffffff;
    __syncthreads();
    for (int span = 1; span < 1024; span *= 2) {
        int start = tid / span * (2 * span);
        order(row, start + tid % span, start + 2 * span - 1 - tid % span);
        __syncthreads();
        for (int distance = span / 2; distance > 0; distance /= 2) {
            int i = tid / distance * (2 * distance) + tid % distance;
            order(row, i, i + distance);
            __syncthreads();
        }
    }
    for (int i = tid; i < width; i += blockDim.x)
        ordered[blockIdx.x * width + i] = row[i];
}
