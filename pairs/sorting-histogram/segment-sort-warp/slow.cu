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
    for (int half = 1; half < 1024; half *= 2) {
        int start = tid / half * (2 * half);
        order(row, start + tid % half, start + 2 * half - 1 - tid % half);
        __syncthreads();
        for (int distance = half / 2; distance > 0; distance /= 2) {
            int i = tid / distance * (2 * distance) + tid % distance;
            order(row, i, i + distance);
            __syncthreads();
        }
    }
    for (int i = tid; i < width; i += blockDim.x)
        ordered[blockIdx.x * width + i] = row[i];
}
