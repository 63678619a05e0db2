extern "C" __global__ void sum_up(const int *x, int *total, int n)
{
    __shared__ int part[1024];
    int sum = 0;
    for (int i = threadIdx.x; i < n; i += 1024)
        sum += x[i];
    part[threadIdx.x] = sum;
    __syncthreads();
    for (int width = 512; width > 0; width /= 2) {
        if (threadIdx.x < width)
            part[threadIdx.x] += part[threadIdx.x + width];
        __syncthreads();
    }
    if (threadIdx.x == 0)
        *total = part[0];
}
