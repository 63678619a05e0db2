extern "C" __global__ void sum_up(const int *x, int *result, int n)
{
    __shared__ int part[256];
    int sum = 0;
    for (int i = threadIdx.x; i < n; i += 256)
        sum += x[i];
    part[threadIdx.x] = sum;
    __syncthreads();
    for (int width = 128; width > 0; width /= 2) {
        if (threadIdx.x < width)
            part[threadIdx.x] += part[threadIdx.x + width];
        __syncthreads();
    }
    if (threadIdx.x == 0)
        *result = part[0];
}
