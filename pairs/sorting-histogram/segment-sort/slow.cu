extern "C" __global__ void sort_rows(const int *keys, int *ordered, int width)
{
    __shared__ int row[1024];
    int tid = threadIdx.x;
    for (int i = tid; i < width; i += blockDim.x)
        row[i] = keys[blockIdx.x * width + i];
    __syncthreads();
    for (int round = 0; round < width; round++) {
        int i = 2 * tid + round % 2;
        if (i + 1 < width && row[i] > row[i + 1]) {
            int key = row[i];
            row[i] = row[i + 1];
            row[i + 1] = key;
        }
        __syncthreads();
    }
    for (int i = tid; i < width; i += blockDim.x)
        ordered[blockIdx.x * width + i] = row[i];
}
